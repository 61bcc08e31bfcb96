"""The built kernel against torch: run by `kernel-build test`."""

import kernelworks
import pytest
import torch

each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
# One value, odd rows, three dimensions, several threads, nothing at all.
each_shape = pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 34), (64, 2048), (0, 8), (4, 0)], ids=str)


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend="cpu", trust_remote_code=True)


def random(shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@each_dtype
@each_shape
def test_what_comes_back_is_within_half_a_step(kernel, dtype, shape):
    x = random(shape, dtype)
    codes, scale = kernel.quantize_rows(x)
    assert (codes.dtype, codes.shape) == (torch.int8, x.shape)
    assert (scale.dtype, scale.shape) == (torch.float32, x.shape[:-1])
    error = (kernel.dequantize_rows(codes, scale) - x.float()).abs()
    assert (error <= 0.50001 * scale.unsqueeze(-1)).all()


@each_dtype
def test_the_largest_magnitude_of_a_row_gets_the_largest_code(kernel, dtype):
    x = random((16, 33), dtype)
    codes, scale = kernel.quantize_rows(x)
    torch.testing.assert_close(scale, x.float().abs().amax(-1) / 127)
    assert (codes.int().abs().amax(-1) == 127).all()


def test_rows_of_zeros_and_of_the_smallest_numbers_do_not_divide_by_zero(kernel):
    codes, scale = kernel.quantize_rows(torch.tensor([[0.0, -0.0], [1e-45, -1e-45], [3e38, -3e38]]))
    assert codes.tolist() == [[0, 0], [127, -127], [127, -127]]
    assert scale[0] == 0
    assert scale.isfinite().all()


def test_an_infinity_or_nan_is_told_by_the_scale_of_its_row_alone(kernel):
    codes, scale = kernel.quantize_rows(torch.tensor([[1.0, torch.inf], [torch.nan, 1.0], [1.0, -1.0]]))
    assert codes.tolist() == [[0, 0], [0, 0], [127, -127]]
    assert (scale[0] == torch.inf, scale[1].isnan(), scale[2].isfinite()) == (True, True, True)


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[:, 1:-1], lambda x: x[::2]], ids=["transposed", "columns", "every second row"]
)
def test_any_memory_layout_is_accepted(kernel, view):
    x = view(random((6, 32)))
    for actual, expected in zip(kernel.quantize_rows(x), kernel.quantize_rows(x.contiguous()), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor(1.0), "at least one dimension"),
        (torch.ones(2, 3, dtype=torch.int32), "not Int"),
        (torch.ones(0, 3, dtype=torch.float64), "not Double"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, x, message):
    with pytest.raises(RuntimeError, match=message):
        kernel.quantize_rows(x)


def test_the_operator_obeys_torchs_rules(kernel):
    torch.library.opcheck(kernel._ops.ops.quantize_rows.default, (random((3, 8)),))


def test_torch_compile_finds_no_graph_break(kernel):
    def there_and_back(x):
        return kernel.dequantize_rows(*kernel.quantize_rows(x))

    x = random((5, 16)).requires_grad_()
    compiled = torch.compile(there_and_back, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), there_and_back(x))
