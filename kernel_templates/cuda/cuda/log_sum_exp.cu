// Device code: one block per row, blocks stride over the rows; warps reduce by shuffles, a block in shared memory.
#include "log_sum_exp.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace log_sum_exp {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 512;

// 16-bit numbers are computed with as float.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

// join(...) of the values of all threads of the block, in every thread.
template <typename Real, typename Join>
__device__ Real reduce(Real value, const Join& join) {
  __shared__ Real of_warp[kMostThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = join(value, __shfl_xor_sync(0xffffffff, value, step));
  }
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) {
    value = join(value, of_warp[warp]);
  }
  __syncthreads();  // the next call may write of_warp
  return value;
}

// What exponents are taken relative to: infinities are left where they are, for a difference of two is NaN.
template <typename Real>
__device__ Real finite_or_zero(Real x) {
  return isfinite(x) ? x : Real(0);
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads) forward_kernel(Rows rows, const T* x, Compute<T>* out) {
  using Real = Compute<T>;
  for (int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const T* const in = x + row * rows.width;
    Real most = -INFINITY;
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      most = max(most, Real(in[i]));
    }
    const Real shift = finite_or_zero(reduce(most, [](Real a, Real b) { return max(a, b); }));
    Real sum = 0;
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      sum += exp(Real(in[i]) - shift);
    }
    sum = reduce(sum, [](Real a, Real b) { return a + b; });
    if (threadIdx.x == 0) {
      out[row] = log(sum) + shift;
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads) backward_kernel(
    Rows rows, const Compute<T>* grad, const T* x, const Compute<T>* out, T* grad_x) {
  using Real = Compute<T>;
  for (int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const Real shift = finite_or_zero(out[row]);
    const Real g = grad[row];
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      grad_x[row * rows.width + i] = T(g * exp(Real(x[row * rows.width + i]) - shift));
    }
  }
}

unsigned blocks(Rows rows) {
  return static_cast<unsigned>(std::min<int64_t>(rows.count, 1 << 20));
}

// Whole warps, at least one: as many threads as a row keeps busy.
unsigned threads(Rows rows) {
  const int64_t busy = (rows.width + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(std::clamp<int64_t>(busy, kWarp, kMostThreads));
}

void check_launch() {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("log_sum_exp: the CUDA launch failed: ") + cudaGetErrorString(error));
  }
}

// Calls f with a null pointer of the element type.
template <typename F>
void with_type(Element element, const F& f) {
  switch (element) {
    case Element::float32: return f(static_cast<float*>(nullptr));
    case Element::float64: return f(static_cast<double*>(nullptr));
    case Element::bfloat16: return f(static_cast<__nv_bfloat16*>(nullptr));
    case Element::float16: return f(static_cast<__half*>(nullptr));
  }
}

}  // namespace

void forward(Element element, Rows rows, const void* x, void* out, cudaStream_t stream) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    forward_kernel<<<blocks(rows), threads(rows), 0, stream>>>(
        rows, static_cast<const T*>(x), static_cast<Compute<T>*>(out));
  });
  check_launch();
}

void backward(
    Element element, Rows rows, const void* grad, const void* x, const void* out, void* grad_x, cudaStream_t stream) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    using Real = Compute<T>;
    backward_kernel<<<blocks(rows), threads(rows), 0, stream>>>(
        rows,
        static_cast<const Real*>(grad),
        static_cast<const T*>(x),
        static_cast<const Real*>(out),
        static_cast<T*>(grad_x));
  });
  check_launch();
}

}  // namespace log_sum_exp
