// The operators as torch sees them: checks, allocation, device and stream, registration.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <tuple>

#include "../rocm/cross_entropy.h"
#include "registration.h"

namespace {

using cross_entropy::Element;
using cross_entropy::Rows;
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
          false, "cross_entropy: `x` must be float32, float64, bfloat16 or float16, not ",
          torch::headeronly::toString(x.scalar_type()));
  }
}

ScalarType computed(const Tensor& x) {
  return x.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
}

// A tensor with one value for each row of x.
void check_values(const char* name, const Tensor& values, const Tensor& x, ScalarType dtype) {
  STD_TORCH_CHECK(x.dim() > 0, "cross_entropy: `x` must have at least one dimension");
  STD_TORCH_CHECK(
      values.sizes().equals(x.sizes().slice(0, x.dim() - 1)), "cross_entropy: `", name,
      "` must have one value for each row of `x`");
  STD_TORCH_CHECK(
      values.scalar_type() == dtype, "cross_entropy: `", name, "` must be ", torch::headeronly::toString(dtype));
  STD_TORCH_CHECK(values.device() == x.device(), "cross_entropy: `", name, "` must be on the device of `x`");
}

// Calls f(rows, stream) on the device of x.
template <typename F>
void launch(const Tensor& x, int64_t rows, const F& f) {
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  f(Rows{rows, x.size(-1)}, static_cast<hipStream_t>(stream));
}

std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& target) {
  const Element element = element_of(x);
  check_values("target", target, x, ScalarType::Long);
  Tensor loss = torch::stable::new_empty(x, target.sizes(), computed(x));
  Tensor normaliser = torch::stable::new_empty(x, target.sizes(), computed(x));
  if (target.numel() > 0) {
    const Tensor dense_x = torch::stable::contiguous(x);
    const Tensor dense_target = torch::stable::contiguous(target);
    launch(x, target.numel(), [&](Rows rows, hipStream_t stream) {
      cross_entropy::forward(
          element,
          rows,
          dense_x.const_data_ptr(),
          static_cast<const int64_t*>(dense_target.const_data_ptr()),
          loss.mutable_data_ptr(),
          normaliser.mutable_data_ptr(),
          stream);
    });
  }
  return {loss, normaliser};
}

Tensor backward(const Tensor& grad, const Tensor& x, const Tensor& target, const Tensor& normaliser) {
  const Element element = element_of(x);
  check_values("grad", grad, x, computed(x));
  check_values("target", target, x, ScalarType::Long);
  check_values("normaliser", normaliser, x, computed(x));
  Tensor grad_x = torch::stable::new_empty(x, x.sizes());
  if (x.numel() > 0) {
    const Tensor dense_grad = torch::stable::contiguous(grad);
    const Tensor dense_x = torch::stable::contiguous(x);
    const Tensor dense_target = torch::stable::contiguous(target);
    const Tensor dense_normaliser = torch::stable::contiguous(normaliser);
    launch(x, target.numel(), [&](Rows rows, hipStream_t stream) {
      cross_entropy::backward(
          element,
          rows,
          dense_grad.const_data_ptr(),
          dense_x.const_data_ptr(),
          static_cast<const int64_t*>(dense_target.const_data_ptr()),
          dense_normaliser.const_data_ptr(),
          grad_x.mutable_data_ptr(),
          stream);
    });
  }
  return grad_x;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, ops) {
  ops.def("cross_entropy(Tensor x, Tensor target) -> (Tensor, Tensor)");
  ops.def("cross_entropy_backward(Tensor grad, Tensor x, Tensor target, Tensor normaliser) -> Tensor");
}

// ROCm's torch dispatches its devices under the key of CUDA.
STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CUDA, ops) {
  ops.impl("cross_entropy", TORCH_BOX(&forward));
  ops.impl("cross_entropy_backward", TORCH_BOX(&backward));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
