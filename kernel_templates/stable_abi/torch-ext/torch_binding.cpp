// The operators as torch sees them: checks, allocation, registration. The work is behind common/launch.h.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <vector>

#include "../common/launch.h"
#include "registration.h"

#if defined(CUDA_KERNEL)
#define DISPATCH_KEY CUDA
#elif defined(CPU_KERNEL)
#define DISPATCH_KEY CPU
#else
#error "no implementation for this backend"
#endif

namespace {

using silu_and_mul::Element;
using silu_and_mul::Rows;
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
          false, "silu_and_mul: `x` must be float32, float64, bfloat16 or float16, not ",
          torch::headeronly::toString(x.scalar_type()));
  }
}

std::vector<int64_t> result_sizes(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() > 0, "silu_and_mul: `x` must have at least one dimension");
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  STD_TORCH_CHECK(
      sizes.back() % 2 == 0, "silu_and_mul: the last dimension of `x` must be even, not ", sizes.back());
  sizes.back() /= 2;
  return sizes;
}

// `tensor` must fit `x` and have the sizes of its result.
void check_result(const char* name, const Tensor& tensor, const Tensor& x) {
  const std::vector<int64_t> sizes = result_sizes(x);
  STD_TORCH_CHECK(
      tensor.sizes().equals(sizes), "silu_and_mul: `", name, "` must have the shape of the result");
  STD_TORCH_CHECK(
      tensor.scalar_type() == x.scalar_type(), "silu_and_mul: `", name, "` must have the dtype of `x`");
  STD_TORCH_CHECK(tensor.device() == x.device(), "silu_and_mul: `", name, "` must be on the device of `x`");
}

// Calls f(element type, rows, stream) on the device of the dense tensor `x`, unless there is nothing to do.
template <typename F>
void launch(const Tensor& x, const F& f) {
  const Element element = element_of(x);
  if (x.numel() == 0) {
    return;
  }
  const int64_t width = x.size(-1) / 2;
  void* stream = nullptr;
#if defined(CUDA_KERNEL)
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
#endif
  f(element, Rows{x.numel() / (2 * width), width}, stream);
}

void forward_into(const Tensor& dense_x, const Tensor& out) {
  launch(dense_x, [&](Element element, Rows rows, void* stream) {
    silu_and_mul::forward(element, rows, dense_x.const_data_ptr(), out.mutable_data_ptr(), stream);
  });
}

Tensor forward(const Tensor& x) {
  Tensor out = torch::stable::new_empty(x, result_sizes(x));
  forward_into(torch::stable::contiguous(x), out);
  return out;
}

void forward_out(const Tensor& x, const Tensor& out) {
  check_result("out", out, x);
  STD_TORCH_CHECK(out.is_contiguous(), "silu_and_mul: `out` must be contiguous");
  const Tensor dense_x = torch::stable::contiguous(x);
  const char* const from = static_cast<const char*>(dense_x.const_data_ptr());
  const char* const to = static_cast<const char*>(out.const_data_ptr());
  const size_t bytes = out.numel() * out.element_size();
  STD_TORCH_CHECK(
      bytes == 0 || to + bytes <= from || from + 2 * bytes <= to, "silu_and_mul: `out` must not overlap `x`");
  forward_into(dense_x, out);
}

Tensor backward(const Tensor& grad, const Tensor& x) {
  check_result("grad", grad, x);
  const Tensor dense_grad = torch::stable::contiguous(grad);
  const Tensor dense_x = torch::stable::contiguous(x);
  Tensor grad_x = torch::stable::new_empty(x, x.sizes());
  launch(dense_x, [&](Element element, Rows rows, void* stream) {
    silu_and_mul::backward(
        element,
        rows,
        dense_grad.const_data_ptr(),
        dense_x.const_data_ptr(),
        grad_x.mutable_data_ptr(),
        stream);
  });
  return grad_x;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, ops) {
  ops.def("silu_and_mul(Tensor x) -> Tensor");
  ops.def("silu_and_mul_out(Tensor x, Tensor(a!) out) -> ()");
  ops.def("silu_and_mul_backward(Tensor grad, Tensor x) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, DISPATCH_KEY, ops) {
  ops.impl("silu_and_mul", TORCH_BOX(&forward));
  ops.impl("silu_and_mul_out", TORCH_BOX(&forward_out));
  ops.impl("silu_and_mul_backward", TORCH_BOX(&backward));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
