// CPU implementation: rows over torch's own threads, dispatch over dtypes by ATen's macros.
#include "../torch-ext/rms_norm.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace {

// Numbers per task: enough work to be worth waking a thread.
constexpr int64_t kGrain = 16384;

// Calls f(row) for every row of x, in parallel.
template <typename F>
void for_each_row(const at::Tensor& x, const F& f) {
  const int64_t grain = std::max<int64_t>(1, kGrain / x.size(1));
  at::parallel_for(0, x.size(0), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      f(row);
    }
  });
}

}  // namespace

void rms_norm_rows(
    const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& out, const at::Tensor& scale) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rms_norm", [&] {
    using Real = at::opmath_type<scalar_t>;
    const int64_t width = x.size(1);
    const scalar_t* const from = x.const_data_ptr<scalar_t>();
    const scalar_t* const w = weight.const_data_ptr<scalar_t>();
    scalar_t* const to = out.mutable_data_ptr<scalar_t>();
    Real* const scales = scale.mutable_data_ptr<Real>();
    for_each_row(x, [&](int64_t row) {
      const scalar_t* const in = from + row * width;
      Real squares = 0;
      for (int64_t i = 0; i < width; ++i) {
        squares += Real(in[i]) * Real(in[i]);
      }
      const Real s = 1 / std::sqrt(squares / width + Real(eps));
      scales[row] = s;
      for (int64_t i = 0; i < width; ++i) {
        to[row * width + i] = scalar_t(Real(in[i]) * s * Real(w[i]));
      }
    });
  });
}

void rms_norm_rows_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    const at::Tensor& grad_x) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rms_norm_backward", [&] {
    using Real = at::opmath_type<scalar_t>;
    const int64_t width = x.size(1);
    const scalar_t* const from = x.const_data_ptr<scalar_t>();
    const scalar_t* const grads = grad.const_data_ptr<scalar_t>();
    const scalar_t* const w = weight.const_data_ptr<scalar_t>();
    const Real* const scales = scale.const_data_ptr<Real>();
    scalar_t* const to = grad_x.mutable_data_ptr<scalar_t>();
    for_each_row(x, [&](int64_t row) {
      const scalar_t* const in = from + row * width;
      const scalar_t* const g = grads + row * width;
      Real dot = 0;
      for (int64_t i = 0; i < width; ++i) {
        dot += Real(g[i]) * Real(w[i]) * Real(in[i]);
      }
      const Real s = scales[row];
      const Real pull = dot / width * s * s;
      for (int64_t i = 0; i < width; ++i) {
        to[row * width + i] = scalar_t(s * (Real(g[i]) * Real(w[i]) - Real(in[i]) * pull));
      }
    });
  });
}
