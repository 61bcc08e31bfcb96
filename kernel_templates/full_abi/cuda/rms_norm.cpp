// The host side of the CUDA implementation: dtypes, device and stream, as torch has them.
#include "../torch-ext/rms_norm.h"

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "launch.h"

namespace {

using rms_norm::Compute;
using rms_norm::Rows;

template <typename T>
struct Device {
  using type = T;
};
template <>
struct Device<at::Half> {
  using type = __half;
};
template <>
struct Device<at::BFloat16> {
  using type = __nv_bfloat16;
};

template <typename T>
auto in(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <typename T>
auto out(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Calls f<T>(rows, stream) with CUDA's name of the type of x, on the device of x.
template <typename F>
void launch(const at::Tensor& x, const F& f) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Rows rows{x.size(0), x.size(1)};
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "rms_norm", [&] {
    f.template operator()<typename Device<scalar_t>::type>(rows, c10::cuda::getCurrentCUDAStream().stream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void rms_norm_rows(
    const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& result, const at::Tensor& scale) {
  launch(x, [&]<typename T>(Rows rows, cudaStream_t stream) {
    launch_forward(rows, in<T>(x), in<T>(weight), eps, out<T>(result), out<Compute<T>>(scale), stream);
  });
}

void rms_norm_rows_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    const at::Tensor& grad_x) {
  launch(x, [&]<typename T>(Rows rows, cudaStream_t stream) {
    launch_backward(rows, in<T>(grad), in<T>(x), in<T>(weight), in<Compute<T>>(scale), out<T>(grad_x), stream);
  });
}
