// The operators as torch sees them: checks, allocation, what ATen computes well itself, registration.
//
// Each header of torch costs compile time: these are the parts that are used, not torch/all.h.
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <tuple>

#include "registration.h"
#include "rms_norm.h"

#if defined(CUDA_KERNEL)
#define DISPATCH_KEY CUDA
#elif defined(CPU_KERNEL)
#define DISPATCH_KEY CPU
#else
#error "no implementation for this backend"
#endif

namespace {

void check(const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() > 0, "rms_norm: `x` must have at least one dimension");
  const auto is = [&](auto... types) { return ((x.scalar_type() == types) || ...); };
  TORCH_CHECK(
      is(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf),
      "rms_norm: `x` must be float32, float64, bfloat16 or float16, not ", x.scalar_type());
  TORCH_CHECK(
      weight.dim() == 1 && weight.size(0) == x.size(-1),
      "rms_norm: `weight` must have shape (", x.size(-1), "), not ", weight.sizes());
  TORCH_CHECK(weight.scalar_type() == x.scalar_type(), "rms_norm: `weight` must have the dtype of `x`");
  TORCH_CHECK(weight.device() == x.device(), "rms_norm: `weight` must be on the device of `x`");
}

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)}).contiguous();
}

std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check(x, weight);
  const at::Tensor out = at::empty(x.sizes(), x.options());
  const at::ScalarType computed = at::toOpMathType(x.scalar_type());
  const at::Tensor scale = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(computed));
  if (x.numel() > 0) {
    rms_norm_rows(rows_of(x), weight.contiguous(), eps, out, scale);
  }
  return {out, scale};
}

std::tuple<at::Tensor, at::Tensor> backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale) {
  check(x, weight);
  TORCH_CHECK(grad.sizes().equals(x.sizes()), "rms_norm: `grad` must have the shape of `x`");
  TORCH_CHECK(grad.scalar_type() == x.scalar_type(), "rms_norm: `grad` must have the dtype of `x`");
  TORCH_CHECK(scale.sizes().equals(x.sizes().slice(0, x.dim() - 1)), "rms_norm: `scale` must have one value a row");
  const at::Tensor grad_x = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) {
    return {grad_x, weight.new_zeros(weight.sizes())};
  }
  const at::Tensor rows = rows_of(x), grad_rows = rows_of(grad), scales = scale.contiguous().view({-1, 1});
  rms_norm_rows_backward(grad_rows, rows, weight.contiguous(), scales, grad_x);
  // A sum over rows is what ATen is good at; `scales` widens the product to the type of the computation.
  const at::Tensor grad_weight = at::sum(at::mul(grad_rows, scales).mul_(rows), {0});
  return {grad_x, grad_weight.to(weight.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor out, Tensor scale)");
  ops.def("rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor scale) -> (Tensor grad_x, Tensor grad_weight)");
}

TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, DISPATCH_KEY, ops) {
  ops.impl("rms_norm", &forward);
  ops.impl("rms_norm_backward", &backward);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
