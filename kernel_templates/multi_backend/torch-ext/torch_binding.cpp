// The operator as torch sees it: checks, allocation, registration, for whichever backend is compiled.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include "../common/rotate.h"
#include "registration.h"

#if defined(CUDA_KERNEL) || defined(ROCM_KERNEL)
#define DISPATCH_KEY CUDA  // torch for ROCm names it so, too
#elif defined(CPU_KERNEL)
#define DISPATCH_KEY CPU
#else
#error "no implementation for this backend"
#endif

namespace {

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
          false, "rotate: `x` must be float32, float64, bfloat16 or float16, not ",
          torch::headeronly::toString(x.scalar_type()));
  }
}

void check_table(const char* name, const Tensor& table, const Tensor& x) {
  const ScalarType computed = x.scalar_type() == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
  STD_TORCH_CHECK(
      table.dim() == 2 && table.size(0) == x.size(-2) && 2 * table.size(1) == x.size(-1),
      "rotate: `", name, "` must have shape (", x.size(-2), ", ", x.size(-1) / 2, ")");
  STD_TORCH_CHECK(
      table.scalar_type() == computed, "rotate: `", name, "` must be ", torch::headeronly::toString(computed));
  STD_TORCH_CHECK(table.device() == x.device(), "rotate: `", name, "` must be on the device of `x`");
}

Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, bool inverse) {
  STD_TORCH_CHECK(x.dim() >= 2, "rotate: `x` must have at least two dimensions");
  STD_TORCH_CHECK(x.size(-1) % 2 == 0, "rotate: the last dimension of `x` must be even, not ", x.size(-1));
  check_table("cos", cos, x);
  check_table("sin", sin, x);
  const Element element = element_of(x);
  Tensor out = torch::stable::new_empty(x, x.sizes());
  if (x.numel() == 0) {
    return out;
  }
  void* stream = nullptr;
#if !defined(CPU_KERNEL)
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
#endif
  const Tensor dense_x = torch::stable::contiguous(x);
  const Tensor dense_cos = torch::stable::contiguous(cos);
  const Tensor dense_sin = torch::stable::contiguous(sin);
  const Rotation rotation{
      x.numel() / x.size(-1),
      x.size(-2),
      x.size(-1) / 2,
      dense_x.const_data_ptr(),
      dense_cos.const_data_ptr(),
      dense_sin.const_data_ptr(),
      out.mutable_data_ptr(),
      inverse};
  rotate(element, rotation, stream);
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, ops) {
  ops.def("rotate(Tensor x, Tensor cos, Tensor sin, bool inverse) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, DISPATCH_KEY, ops) {
  ops.impl("rotate", TORCH_BOX(&rotated));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
