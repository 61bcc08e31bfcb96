"""The built kernel against torch: run by `kernel-build test` on a machine with a GPU."""

import kernelworks
import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel needs a CUDA device")

each_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
# One value, odd rows, three dimensions, rows longer than a block, nothing at all.
each_shape = pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 34), (64, 5000), (0, 8), (4, 0)], ids=str)


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend="cuda", trust_remote_code=True)


def random(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (4 * torch.randn(shape, generator=generator, dtype=torch.float64)).to("cuda", dtype)


@each_dtype
@each_shape
def test_forward_is_the_formula(kernel, dtype, shape):
    x = random(shape, dtype)
    out = kernel.log_sum_exp(x)
    exact = x.double().logsumexp(-1)
    assert (out.dtype, out.shape) == (torch.float64 if dtype == torch.float64 else torch.float32, exact.shape)
    tolerance = 16 * torch.finfo(out.dtype).eps
    torch.testing.assert_close(out.double(), exact, rtol=tolerance, atol=tolerance)


@each_dtype
@each_shape
def test_backward_is_the_softmax_times_the_gradient(kernel, dtype, shape):
    x = random(shape, dtype).requires_grad_()
    out = kernel.log_sum_exp(x)
    grad = random(out.shape, out.dtype, seed=1)
    (actual,) = torch.autograd.grad(out, x, grad)
    assert actual.dtype == dtype
    expected = grad.double().unsqueeze(-1) * x.detach().double().softmax(-1)
    computed = torch.finfo(out.dtype).eps
    tiny = torch.finfo(dtype).smallest_normal  # below it, a 16-bit type has fewer digits
    torch.testing.assert_close(
        actual.double(), expected, rtol=torch.finfo(dtype).eps + 64 * computed, atol=64 * computed + tiny
    )


def test_gradients_agree_with_finite_differences(kernel):
    assert torch.autograd.gradcheck(kernel.log_sum_exp, (random((3, 5), torch.float64).requires_grad_(),))


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[:, 1:-1], lambda x: x[::2]], ids=["transposed", "columns", "every second row"]
)
def test_any_memory_layout_is_accepted(kernel, view):
    x = view(random((6, 32)))
    torch.testing.assert_close(kernel.log_sum_exp(x), x.logsumexp(-1))


def test_large_and_special_values_behave_as_in_torch(kernel):
    inf, nan = torch.inf, torch.nan
    x = torch.tensor([[1e4, 1e4], [-1e4, -1e4], [inf, 0.0], [-inf, 0.0], [-inf, -inf], [nan, 0.0]], device="cuda")
    torch.testing.assert_close(kernel.log_sum_exp(x), x.logsumexp(-1), equal_nan=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: random(()), "at least one dimension"),
        (lambda: random((2, 3)).int(), "not Int"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, make, message):
    with pytest.raises(RuntimeError, match=message):
        kernel.log_sum_exp(make())


def test_operators_obey_torchs_rules(kernel):
    ops, x = kernel._ops.ops, random((3, 8))
    torch.library.opcheck(ops.log_sum_exp.default, (x.clone().requires_grad_(),))
    torch.library.opcheck(ops.log_sum_exp_backward.default, (random((3,), seed=1), x, ops.log_sum_exp(x)))


def test_torch_compile_finds_no_graph_break(kernel):
    compiled = torch.compile(kernel.log_sum_exp, backend="aot_eager", fullgraph=True)
    x = random((5, 16)).requires_grad_()
    out = compiled(x)
    torch.testing.assert_close(out, x.logsumexp(-1))
    out.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().softmax(-1))
