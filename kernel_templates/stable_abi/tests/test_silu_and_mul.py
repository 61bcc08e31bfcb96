"""The built kernel against torch: run by `kernel-build test`.

By hand: `LOCAL_KERNELS=__REPO_ID__=dist pytest`.
"""

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
# __WITHOUT cpu__
pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="the kernel needs a GPU")
# __END__
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
# One value, rows that are not multiples of 16 bytes, three dimensions, several threads, nothing at all.
SHAPES = [(2,), (3, 10), (5, 7, 34), (1, 28672), (64, 2048), (0, 8), (4, 0)]

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend=DEVICE, trust_remote_code=True)


@pytest.fixture(scope="session")
def ops(kernel):
    return kernel._ops.ops


def random(shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return (4 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(DEVICE, dtype)


def reference(x):
    gate, value = x.chunk(2, dim=-1)
    return functional.silu(gate) * value


@each_dtype
@each_shape
def test_forward_is_the_formula_rounded_once(kernel, dtype, shape):
    x = random(shape, dtype)
    out = kernel.silu_and_mul(x)
    assert out.dtype == dtype
    limits = torch.finfo(dtype)
    rtol = limits.eps * (0.51 if out.element_size() == 2 else 4)
    torch.testing.assert_close(out.double(), reference(x.double()), rtol=rtol, atol=limits.smallest_normal)


@each_dtype
@each_shape
def test_backward_is_the_derivative_of_the_formula(kernel, dtype, shape):
    x = random(shape, dtype).requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    out, exact = kernel.silu_and_mul(x), reference(exact_x)
    grad = random(out.shape, dtype)
    (actual,) = torch.autograd.grad(out, x, grad)
    (expected,) = torch.autograd.grad(exact, exact_x, grad.double())
    assert actual.dtype == dtype
    # Where the derivative crosses zero, large terms cancel and leave the error of the computation.
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    rtol, atol = 4 * torch.finfo(dtype).eps, 512 * torch.finfo(computed).eps
    torch.testing.assert_close(actual.double(), expected, rtol=rtol, atol=atol)


def test_gradients_agree_with_finite_differences(kernel):
    x = random((3, 10), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(kernel.silu_and_mul, (x,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_every_16_bit_gate_gives_the_result_or_its_neighbour(kernel, dtype):
    gate = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype).to(DEVICE)
    out = kernel.silu_and_mul(torch.cat([gate, torch.ones_like(gate)]))
    limits = torch.finfo(dtype)
    negligible = max(limits.smallest_normal * limits.eps, 2e-36)  # see README: Numerics
    torch.testing.assert_close(
        out, functional.silu(gate.double()).to(dtype), rtol=limits.eps, atol=negligible, equal_nan=True
    )


@each_dtype
def test_large_and_special_values_behave_as_in_torch(kernel, dtype):
    special = [0.0, -0.0, 200.0, -200.0, torch.inf, -torch.inf, torch.nan]
    gate = torch.tensor(special, dtype=dtype, device=DEVICE)
    x = torch.cat([gate, torch.ones_like(gate)])
    torch.testing.assert_close(kernel.silu_and_mul(x), reference(x), equal_nan=True)


@pytest.mark.parametrize(
    "view",
    [lambda x: x.t(), lambda x: x[:, 1:-1], lambda x: x.flatten()[1:129].view(2, -1), lambda x: x[::2]],
    ids=["transposed", "columns", "unaligned", "every second row"],
)
def test_any_memory_layout_is_accepted(kernel, view):
    x = view(random((6, 32)))
    torch.testing.assert_close(kernel.silu_and_mul(x), reference(x))


def test_a_broadcast_gradient_is_accepted(kernel):
    x = random((4, 16)).requires_grad_()
    (actual,) = torch.autograd.grad(kernel.silu_and_mul(x).sum(), x)
    (expected,) = torch.autograd.grad(reference(x).sum(), x)
    torch.testing.assert_close(actual, expected)


def test_out_receives_the_result(kernel):
    x, out = random((3, 8)), torch.empty(3, 4, device=DEVICE)
    assert kernel.silu_and_mul(x, out=out) is out
    torch.testing.assert_close(out, reference(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f(random((3, 7))), "must be even, not 7"),
        (lambda f: f(random(())), "at least one dimension"),
        (lambda f: f(torch.ones(2, 4, dtype=torch.int32, device=DEVICE)), "not Int"),
        (lambda f: f(random((3, 8)), random((3, 5))), "`out` must have the shape"),
        (lambda f: f(random((3, 8)), random((3, 4), torch.float64)), "`out` must have the dtype"),
        (lambda f: f(random((3, 8)), random((4, 3)).t()), "`out` must be contiguous"),
        (lambda f: f(x := random((3, 8)), x.flatten()[:12].view(3, 4)), "`out` must not overlap"),
        (lambda f: f(random((3, 8)).requires_grad_(), random((3, 4))), "autograd cannot record"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(kernel.silu_and_mul)


def test_a_second_derivative_is_refused(kernel):
    x = random((3, 8)).requires_grad_()
    (grad,) = torch.autograd.grad(kernel.silu_and_mul(x).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="first derivative"):
        grad.sum().backward()


def test_operators_obey_torchs_rules(ops):
    x = random((3, 8))
    torch.library.opcheck(ops.silu_and_mul.default, (x.clone().requires_grad_(),))
    torch.library.opcheck(ops.silu_and_mul_out.default, (x, random((3, 4))))
    torch.library.opcheck(ops.silu_and_mul_backward.default, (random((3, 4)), x))


def test_torch_compile_finds_no_graph_break(kernel):
    layer = torch.compile(kernel.layers.SiluAndMul(), backend="aot_eager", fullgraph=True)
    x = random((5, 16)).requires_grad_()
    out = layer(x)
    torch.testing.assert_close(out, reference(x))
    (actual,) = torch.autograd.grad(out.sum(), x)
    (expected,) = torch.autograd.grad(reference(x).sum(), x)
    torch.testing.assert_close(actual, expected)


def test_torch_compile_writes_into_out(kernel):
    def step(x, out):
        return kernel.silu_and_mul(x, out) + 1

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    x, out = random((3, 8)), torch.empty(3, 4, device=DEVICE)
    torch.testing.assert_close(compiled(x, out), reference(x) + 1)
    torch.testing.assert_close(out, reference(x))
