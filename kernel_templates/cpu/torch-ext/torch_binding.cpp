// The operator as torch sees it: checks, allocation, registration.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <tuple>
#include <vector>

#include "../cpu/quantize_rows.h"
#include "registration.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

std::tuple<Tensor, Tensor> quantized(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() > 0, "quantize_rows: `x` must have at least one dimension");
  const std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  Tensor codes = torch::stable::new_empty(x, sizes, ScalarType::Char);
  Tensor scale = torch::stable::new_zeros(x, {sizes.data(), sizes.size() - 1}, ScalarType::Float);
  const int64_t width = sizes.back();
  const int64_t rows = width > 0 ? x.numel() / width : 0;
  quantize_rows(torch::stable::reshape(torch::stable::contiguous(x), {rows, width}), codes, scale);
  return {codes, scale};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, ops) {
  ops.def("quantize_rows(Tensor x) -> (Tensor codes, Tensor scale)");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, ops) {
  ops.impl("quantize_rows", TORCH_BOX(&quantized));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
