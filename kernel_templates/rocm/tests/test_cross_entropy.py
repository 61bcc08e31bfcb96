"""The built kernel against torch: run by `kernel-build test` on a machine with a GPU."""

import kernelworks
import pytest
import torch
from torch.nn import functional

pytestmark = pytest.mark.skipif(torch.version.hip is None, reason="the kernel needs a ROCm device")

each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
# One row, rows that leave lanes idle, three dimensions, rows longer than a block, nothing at all.
each_shape = pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 34), (64, 5000), (0, 8)], ids=str)


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend="rocm", trust_remote_code=True)


def random(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (4 * torch.randn(shape, generator=generator, dtype=torch.float64)).to("cuda", dtype)


def classes(x, seed=1):
    """Targets for the rows of `x`, of which every fifth is no class."""
    target = torch.randint(x.shape[-1], x.shape[:-1], generator=torch.Generator().manual_seed(seed))
    target.view(-1)[4::5] = -100
    return target.to("cuda")


def exact(x, target):
    rows = x.double().reshape(-1, x.shape[-1])
    return functional.cross_entropy(rows, target.reshape(-1), reduction="none").reshape(target.shape)


@each_dtype
@each_shape
def test_forward_is_the_formula(kernel, dtype, shape):
    x = random(shape, dtype)
    target = classes(x)
    loss = kernel.cross_entropy(x, target)
    assert (loss.dtype, loss.shape) == (torch.float64 if dtype == torch.float64 else torch.float32, target.shape)
    tolerance = 32 * torch.finfo(loss.dtype).eps
    torch.testing.assert_close(loss.double(), exact(x, target), rtol=tolerance, atol=tolerance)


@each_dtype
@each_shape
def test_backward_is_the_derivative_of_the_formula(kernel, dtype, shape):
    x = random(shape, dtype).requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    target = classes(x)
    loss = kernel.cross_entropy(x, target)
    grad = random(loss.shape, loss.dtype, seed=2)
    (actual,) = torch.autograd.grad(loss, x, grad)
    (expected,) = torch.autograd.grad(exact(exact_x, target), exact_x, grad.double())
    assert actual.dtype == dtype
    computed = torch.finfo(loss.dtype).eps
    tiny = torch.finfo(dtype).smallest_normal  # below it, a 16-bit type has fewer digits
    torch.testing.assert_close(
        actual.double(), expected, rtol=torch.finfo(dtype).eps + 64 * computed, atol=64 * computed + tiny
    )


def test_gradients_agree_with_finite_differences(kernel):
    x = random((3, 5), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(kernel.cross_entropy, (x, classes(x)))


def test_any_memory_layout_is_accepted(kernel):
    x = random((32, 6)).t()
    target = classes(random((12, 32)))[::2]
    torch.testing.assert_close(kernel.cross_entropy(x, target).double(), exact(x, target))


def test_large_and_special_values_behave_as_in_torch(kernel):
    inf, nan = torch.inf, torch.nan
    x = torch.tensor([[1e4, 1e4], [-1e4, -1e4], [inf, 0.0], [-inf, 0.0], [-inf, -inf], [nan, 0.0]], device="cuda")
    target = torch.ones(6, dtype=torch.int64, device="cuda")
    torch.testing.assert_close(kernel.cross_entropy(x, target).double(), exact(x, target), equal_nan=True)


@pytest.mark.parametrize(
    ("x", "target", "message"),
    [
        (torch.ones(()), torch.ones((), dtype=torch.int64), "at least one dimension"),
        (torch.ones(2, 3), torch.ones(3, dtype=torch.int64), "one value for each row"),
        (torch.ones(2, 3), torch.ones(2, dtype=torch.int32), "`target` must be Long"),
        (torch.ones(2, 3).int(), torch.ones(2, dtype=torch.int64), "not Int"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, x, target, message):
    with pytest.raises(RuntimeError, match=message):
        kernel.cross_entropy(x.to("cuda"), target.to("cuda"))


def test_operators_obey_torchs_rules(kernel):
    ops, x = kernel._ops.ops, random((3, 8))
    target = classes(x)
    _, normaliser = ops.cross_entropy(x, target)
    torch.library.opcheck(ops.cross_entropy.default, (x.clone().requires_grad_(), target))
    torch.library.opcheck(ops.cross_entropy_backward.default, (random((3,), seed=2), x, target, normaliser))


def test_the_cpu_computes_the_same(kernel):
    x = random((5, 16)).requires_grad_()
    on_cpu = x.detach().cpu().requires_grad_()
    target = classes(x)
    kernel.cross_entropy(x, target).sum().backward()
    kernel.cross_entropy(on_cpu, target.cpu()).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), on_cpu.grad)


def test_torch_compile_finds_no_graph_break(kernel):
    compiled = torch.compile(kernel.cross_entropy, backend="aot_eager", fullgraph=True)
    x = random((5, 16)).requires_grad_()
    target = classes(x)
    loss = compiled(x, target)
    torch.testing.assert_close(loss.double(), exact(x.detach(), target))
    loss.sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.functional.jacobian(lambda y: exact(y, target).sum(), x.detach()))
