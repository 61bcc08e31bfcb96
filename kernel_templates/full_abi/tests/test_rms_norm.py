"""The built kernel against torch: run by `kernel-build test`."""

import kernelworks
import pytest
import torch
from torch.nn import functional

# __WITH cuda__
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# __END__
# __WITHOUT cuda__
DEVICE = "cpu"
# __END__
EPS = 1e-6
# __WITHOUT cpu__
pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="the kernel needs a GPU")
# __END__

each_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
# One value, odd rows, three dimensions, several threads, nothing at all.
each_shape = pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 34), (64, 2048), (0, 8), (4, 0)], ids=str)


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend=DEVICE, trust_remote_code=True)


@pytest.fixture(scope="session")
def ops(kernel):
    return kernel._ops.ops


def random(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)


def reference(x, weight):
    return functional.rms_norm(x, weight.shape, weight, EPS)


@each_dtype
@each_shape
def test_forward_is_the_formula_rounded_once(kernel, dtype, shape):
    x, weight = random(shape, dtype), random(shape[-1:], dtype, seed=1)
    out = kernel.rms_norm(x, weight, EPS)
    assert (out.dtype, out.shape) == (dtype, x.shape)
    rtol = torch.finfo(dtype).eps * (0.51 if out.element_size() == 2 else 16)
    torch.testing.assert_close(out.double(), reference(x.double(), weight.double()), rtol=rtol, atol=1e-7)


@each_dtype
@each_shape
def test_backward_is_the_derivative_of_the_formula(kernel, dtype, shape):
    inputs = [random(shape, dtype), random(shape[-1:], dtype, seed=1)]
    grad = random(shape, dtype, seed=2)
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    actual = torch.autograd.grad(kernel.rms_norm(*inputs, EPS), inputs, grad)
    expected = torch.autograd.grad(reference(*exact), exact, grad.double())
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    rtol, atol = 4 * torch.finfo(dtype).eps, 512 * torch.finfo(computed).eps  # sums cancel, in the computed type
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, rtol=rtol, atol=atol)


def test_gradients_agree_with_finite_differences(kernel):
    inputs = (random((3, 5), torch.float64).requires_grad_(), random((5,), torch.float64, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(kernel.rms_norm, inputs)


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[:, 1:-1], lambda x: x[::2]], ids=["transposed", "columns", "every second row"]
)
def test_any_memory_layout_is_accepted(kernel, view):
    x = view(random((6, 32)))
    weight = random((2 * x.shape[-1],), seed=1)[::2]
    torch.testing.assert_close(kernel.rms_norm(x, weight, EPS), reference(x, weight))


def test_a_broadcast_gradient_is_accepted(kernel):
    x, weight = random((4, 16)).requires_grad_(), random((16,), seed=1)
    (actual,) = torch.autograd.grad(kernel.rms_norm(x, weight, EPS).sum(), x)
    (expected,) = torch.autograd.grad(reference(x, weight).sum(), x)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        (random(()), random((1,)), "at least one dimension"),
        (random((2, 4)).int(), random((4,)), "must be float32, float64"),
        (random((2, 4)), random((3,)), "`weight` must have shape"),
        (random((2, 4)), random((4,), torch.float64), "`weight` must have the dtype"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, x, weight, message):
    with pytest.raises(RuntimeError, match=message):
        kernel.rms_norm(x, weight)


def test_operators_obey_torchs_rules(ops):
    x, weight = random((3, 8)), random((8,), seed=1)
    scale = ops.rms_norm(x, weight, EPS)[1]
    torch.library.opcheck(ops.rms_norm.default, (x.clone().requires_grad_(), weight, EPS))
    torch.library.opcheck(ops.rms_norm_backward.default, (random((3, 8), seed=2), x, weight, scale))


def test_torch_compile_finds_no_graph_break(kernel):
    compiled = torch.compile(kernel.rms_norm, backend="aot_eager", fullgraph=True)
    x, weight = random((3, 8)).requires_grad_(), random((8,), seed=1)
    out = compiled(x, weight, EPS)
    torch.testing.assert_close(out, reference(x, weight))
    out.sum().backward()
    assert x.grad.shape == x.shape
