"""The built kernel against torch: run by `kernel-build test`."""

import kernelworks
import pytest
import torch

# __WITH cuda rocm__
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BACKEND = "rocm" if torch.version.hip and DEVICE == "cuda" else DEVICE
# __END__
# __WITHOUT cuda rocm__
DEVICE = BACKEND = "cpu"
# __END__
# __WITHOUT cpu__
pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="the kernel needs a GPU")
# __END__

each_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
# One pair, odd rows, batches and heads, several threads, nothing at all.
each_shape = pytest.mark.parametrize(
    "shape", [(1, 2), (3, 14), (2, 3, 5, 34), (4, 8, 256, 64), (0, 3, 8), (3, 0)], ids=str
)


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend=BACKEND, trust_remote_code=True)


def random(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)


def angles(x):
    """`cos` and `sin` that fit `x`."""
    table = random((x.shape[-2], x.shape[-1] // 2), seed=1).to(torch.float64)
    computed = torch.float64 if x.dtype == torch.float64 else torch.float32
    return table.cos().to(computed), table.sin().to(computed)


def reference(x, cos, sin):
    """The rotation as a product of complex numbers, in float64."""
    a, b = x.double().chunk(2, -1)
    turned = torch.complex(a, b) * torch.complex(cos.double(), sin.double())
    return torch.cat([turned.real, turned.imag], -1)


@each_dtype
@each_shape
def test_forward_is_the_rotation_rounded_once(kernel, dtype, shape):
    x = random(shape, dtype)
    out = kernel.rotate(x, *angles(x))
    assert (out.dtype, out.shape) == (dtype, x.shape)
    limits = torch.finfo(dtype)
    rtol = limits.eps * (0.51 if out.element_size() == 2 else 4)
    atol = 8 * torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps  # a difference may cancel
    torch.testing.assert_close(out.double(), reference(x, *angles(x)), rtol=rtol, atol=atol)


@each_dtype
@each_shape
def test_backward_turns_back(kernel, dtype, shape):
    x, grad = random(shape, dtype).requires_grad_(), random(shape, dtype, seed=2)
    (actual,) = torch.autograd.grad(kernel.rotate(x, *angles(x)), x, grad)
    torch.testing.assert_close(actual, kernel.rotate(grad, *angles(x), inverse=True), rtol=0, atol=0)


def test_gradients_agree_with_finite_differences_twice(kernel):
    x = random((2, 3, 8), torch.float64).requires_grad_()
    cos, sin = angles(x)
    assert torch.autograd.gradcheck(lambda x: kernel.rotate(x, cos, sin), (x,))
    assert torch.autograd.gradgradcheck(lambda x: kernel.rotate(x, cos, sin), (x,))


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[:, 1:-1], lambda x: x[::2]], ids=["transposed", "columns", "every second row"]
)
def test_any_memory_layout_is_accepted(kernel, view):
    x = view(random((6, 32)))
    cos, sin = (table.t().contiguous().t() for table in angles(x))
    torch.testing.assert_close(kernel.rotate(x, cos, sin).double(), reference(x, cos, sin), rtol=1e-5, atol=1e-6)


def test_products_depend_on_the_distance_of_positions_only(kernel):
    query, key = random((1, 64)).expand(9, 64), random((1, 64), seed=1).expand(9, 64)
    near, far = (
        (kernel.rotate(query, *kernel.tables(start + torch.arange(9, device=DEVICE), 64)) @
         kernel.rotate(key, *kernel.tables(start + torch.arange(9, device=DEVICE), 64)).t())
        for start in (0, 1000)
    )
    torch.testing.assert_close(near, far, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, x, cos, sin: f(x[0], cos, sin), "at least two dimensions"),
        (lambda f, x, cos, sin: f(x[:, 1:], cos, sin), "must be even, not 7"),
        (lambda f, x, cos, sin: f(x.int(), cos, sin), "not Int"),
        (lambda f, x, cos, sin: f(x, cos[:1], sin), r"`cos` must have shape \(3, 4\)"),
        (lambda f, x, cos, sin: f(x, cos, sin.double()), "`sin` must be Float"),
        (lambda f, x, cos, sin: f(x, cos.requires_grad_(), sin), "not implemented"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, call, message):
    x = random((3, 8))
    with pytest.raises(RuntimeError, match=message):
        call(kernel.rotate, x, *angles(x))


def test_the_operator_obeys_torchs_rules(kernel):
    x = random((3, 8))
    torch.library.opcheck(kernel._ops.ops.rotate.default, (x.clone().requires_grad_(), *angles(x), False))


def test_torch_compile_finds_no_graph_break(kernel):
    compiled = torch.compile(kernel.rotate, backend="aot_eager", fullgraph=True)
    x = random((5, 16)).requires_grad_()
    out = compiled(x, *angles(x))
    torch.testing.assert_close(out, kernel.rotate(x, *angles(x)))
    out.square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())  # a rotation keeps the length
