"""The kernel against torch: run by `kernel-build test`, on the GPU if there is one."""

# __WITH cuda rocm__
import importlib
import os

# __END__
import kernelworks
import pytest
import torch

# __WITH cuda rocm__
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# __END__
# __WITHOUT cuda rocm__
DEVICE = "cpu"
# __END__
SCALE = 0.3
# __WITHOUT cpu__
pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="the kernel needs a GPU")
# __END__

each_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
# One value, as many queries as keys, fewer, batches and heads, no key, no batch.
each_shape = pytest.mark.parametrize(
    "shape", [(1, 1), (7, 7), (3, 10), (2, 3, 5, 65), (0, 4), (0, 2, 3)], ids=str
)


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend="cpu" if DEVICE == "cpu" else None, trust_remote_code=True)


def random(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (4 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(DEVICE, dtype)


def reference(scores):
    queries, keys = scores.shape[-2:]
    hidden = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).triu(keys - queries + 1)
    return (scores * SCALE).masked_fill(hidden, -torch.inf).softmax(-1)


@each_dtype
@each_shape
def test_forward_is_the_formula_rounded_once(kernel, dtype, shape):
    scores = random(shape, dtype)
    out = kernel.causal_softmax(scores, SCALE)
    assert (out.dtype, out.shape) == (dtype, scores.shape)
    rtol = torch.finfo(dtype).eps * (0.51 if out.element_size() == 2 else 16)
    torch.testing.assert_close(out.double(), reference(scores.double()), rtol=rtol, atol=1e-7)


@each_dtype
@each_shape
def test_backward_is_the_derivative_of_the_formula(kernel, dtype, shape):
    scores, grad = random(shape, dtype).requires_grad_(), random(shape, dtype, seed=1)
    exact = scores.detach().double().requires_grad_()
    (actual,) = torch.autograd.grad(kernel.causal_softmax(scores, SCALE), scores, grad)
    (expected,) = torch.autograd.grad(reference(exact), exact, grad.double())
    assert actual.dtype == dtype
    tolerance = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


def test_gradients_agree_with_finite_differences(kernel):
    scores = random((2, 3, 5), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(kernel.causal_softmax, (scores, SCALE))


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[2:, 1:-1], lambda x: x[::2]], ids=["transposed", "columns", "every second row"]
)
def test_any_memory_layout_is_accepted(kernel, view):
    scores = view(random((16, 16)))
    torch.testing.assert_close(kernel.causal_softmax(scores, SCALE), reference(scores))


def test_large_scores_do_not_overflow(kernel):
    scores = 1e4 * random((4, 6))
    torch.testing.assert_close(kernel.causal_softmax(scores, SCALE), reference(scores))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (random((5,)), "shape"),
        (random((5, 4)), "Q <= K"),
        (random((4, 4)).int(), "not torch.int32"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, scores, message):
    with pytest.raises(ValueError, match=message):
        kernel.causal_softmax(scores)


def test_operators_obey_torchs_rules(kernel):
    scores = random((3, 8))
    torch.library.opcheck(kernel._ops.ops.causal_softmax.default, (scores.clone().requires_grad_(), SCALE))
    torch.library.opcheck(kernel._ops.ops.causal_softmax_backward.default, (random((3, 8), seed=1), scores, SCALE))


def test_torch_compile_finds_no_graph_break(kernel):
    compiled = torch.compile(kernel.causal_softmax, backend="aot_eager", fullgraph=True)
    scores = random((5, 6)).requires_grad_()
    out = compiled(scores, SCALE)
    torch.testing.assert_close(out, reference(scores))
    out.square().sum().backward()
    assert scores.grad.abs().sum() > 0


# __WITH cuda rocm__
@pytest.mark.skipif(
    DEVICE == "cpu" and not os.environ.get("TRITON_INTERPRET"), reason="needs a GPU, or TRITON_INTERPRET=1"
)
@each_shape
def test_the_triton_code_is_the_formula(kernel, shape):
    pytest.importorskip("triton")
    by_triton = importlib.import_module(f"{kernel.__name__}.by_triton")
    scores, grad = random(shape).requires_grad_(), random(shape, seed=1)
    weights = reference(scores)
    (expected,) = torch.autograd.grad(weights, scores, grad)
    torch.testing.assert_close(by_triton.forward(scores.detach(), SCALE), weights)
    torch.testing.assert_close(by_triton.backward(grad, weights.detach(), SCALE), expected)
# __END__
