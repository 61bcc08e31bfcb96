// The operators as torch sees them: checks, allocation, device and stream, registration.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include "../cuda/log_sum_exp.h"
#include "registration.h"

namespace {

using log_sum_exp::Element;
using log_sum_exp::Rows;
using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Element element_of(const Tensor& x) {
  switch (x.scalar_type()) {
    case ScalarType::Float: return Element::float32;
    case ScalarType::Double: return Element::float64;
    case ScalarType::BFloat16: return Element::bfloat16;
    case ScalarType::Half: return Element::float16;
    default:
      STD_TORCH_CHECK(
          false, "log_sum_exp: `x` must be float32, float64, bfloat16 or float16, not ",
          torch::headeronly::toString(x.scalar_type()));
  }
}

ScalarType computed(const Tensor& x) {
  return x.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
}

IntHeaderOnlyArrayRef leading_sizes(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() > 0, "log_sum_exp: `x` must have at least one dimension");
  return x.sizes().slice(0, x.dim() - 1);
}

// A tensor with one value of the computation for each row of x.
void check_values(const char* name, const Tensor& values, const Tensor& x) {
  STD_TORCH_CHECK(values.sizes().equals(leading_sizes(x)), "log_sum_exp: `", name, "` must have one value a row");
  STD_TORCH_CHECK(values.scalar_type() == computed(x), "log_sum_exp: `", name, "` must have the dtype of the result");
  STD_TORCH_CHECK(values.device() == x.device(), "log_sum_exp: `", name, "` must be on the device of `x`");
}

// Calls f(rows, stream) on the device of x.
template <typename F>
void launch(const Tensor& x, int64_t rows, const F& f) {
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  f(Rows{rows, x.size(-1)}, static_cast<cudaStream_t>(stream));
}

Tensor forward(const Tensor& x) {
  const Element element = element_of(x);
  Tensor out = torch::stable::new_empty(x, leading_sizes(x), computed(x));
  if (out.numel() > 0) {
    const Tensor dense_x = torch::stable::contiguous(x);
    launch(x, out.numel(), [&](Rows rows, cudaStream_t stream) {
      log_sum_exp::forward(element, rows, dense_x.const_data_ptr(), out.mutable_data_ptr(), stream);
    });
  }
  return out;
}

Tensor backward(const Tensor& grad, const Tensor& x, const Tensor& out) {
  const Element element = element_of(x);
  check_values("grad", grad, x);
  check_values("out", out, x);
  Tensor grad_x = torch::stable::new_empty(x, x.sizes());
  if (x.numel() > 0) {
    const Tensor dense_grad = torch::stable::contiguous(grad);
    const Tensor dense_x = torch::stable::contiguous(x);
    const Tensor dense_out = torch::stable::contiguous(out);
    launch(x, out.numel(), [&](Rows rows, cudaStream_t stream) {
      log_sum_exp::backward(
          element,
          rows,
          dense_grad.const_data_ptr(),
          dense_x.const_data_ptr(),
          dense_out.const_data_ptr(),
          grad_x.mutable_data_ptr(),
          stream);
    });
  }
  return grad_x;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, ops) {
  ops.def("log_sum_exp(Tensor x) -> Tensor");
  ops.def("log_sum_exp_backward(Tensor grad, Tensor x, Tensor out) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("log_sum_exp", TORCH_BOX(&forward));
  ops.impl("log_sum_exp_backward", TORCH_BOX(&backward));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
