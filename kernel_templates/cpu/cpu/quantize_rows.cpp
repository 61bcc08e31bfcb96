#include "quantize_rows.h"

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/Half.h>

#include <cmath>

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Numbers per task: enough work to be worth waking a thread.
constexpr int64_t kGrain = 16384;

// The largest magnitude; NaN if there is one.
template <typename T>
float largest(const T* x, int64_t width) {
  float found = 0;
  for (int64_t i = 0; i < width; ++i) {
    const float size = std::fabs(static_cast<float>(x[i]));
    found = size > found || std::isnan(size) ? size : found;
  }
  return found;
}

template <typename T>
void quantize_as(const Tensor& x, const Tensor& codes, const Tensor& scale) {
  const int64_t width = x.size(1);
  const T* const from = static_cast<const T*>(x.const_data_ptr());
  int8_t* const to = static_cast<int8_t*>(codes.mutable_data_ptr());
  float* const scales = static_cast<float*>(scale.mutable_data_ptr());
  const int64_t grain = 1 + kGrain / (1 + width);
  torch::stable::parallel_for(0, x.size(0), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float most = largest(from + row * width, width);
      const bool coded = most > 0 && std::isfinite(most);
      const double inverse = 127.0 / most;  // double: it is finite for the smallest float, too
      scales[row] = most / 127;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        to[i] = coded ? static_cast<int8_t>(std::nearbyint(static_cast<float>(from[i]) * inverse)) : 0;
      }
    }
  });
}

}  // namespace

void quantize_rows(const Tensor& x, const Tensor& codes, const Tensor& scale) {
  switch (x.scalar_type()) {
    case ScalarType::Float: return quantize_as<float>(x, codes, scale);
    case ScalarType::BFloat16: return quantize_as<torch::headeronly::BFloat16>(x, codes, scale);
    case ScalarType::Half: return quantize_as<torch::headeronly::Half>(x, codes, scale);
    default:
      STD_TORCH_CHECK(
          false, "quantize_rows: `x` must be float32, bfloat16 or float16, not ",
          torch::headeronly::toString(x.scalar_type()));
  }
}
