// Device code: one block per row, blocks stride over the rows.
#include "launch.h"

#include <algorithm>

namespace rms_norm {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;

// The sum of `value` over the block, in every thread.
template <typename Real>
__device__ Real block_sum(Real value) {
  __shared__ Real sums[kMostThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, step);
  }
  if (threadIdx.x % kWarp == 0) {
    sums[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  Real total = 0;
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
    total += sums[warp];
  }
  __syncthreads();  // `sums` may be written again
  return total;
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    forward(Rows rows, const T* x, const T* weight, double eps, T* out, Compute<T>* scale) {
  using Real = Compute<T>;
  for (int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const T* const in = x + row * rows.width;
    Real squares = 0;
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      squares += Real(in[i]) * Real(in[i]);
    }
    const Real s = 1 / sqrt(block_sum(squares) / Real(rows.width) + Real(eps));
    if (threadIdx.x == 0) {
      scale[row] = s;
    }
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      out[row * rows.width + i] = T(Real(in[i]) * s * Real(weight[i]));
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads) backward(
    Rows rows, const T* grad, const T* x, const T* weight, const Compute<T>* scale, T* grad_x) {
  using Real = Compute<T>;
  for (int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const T* const in = x + row * rows.width;
    const T* const g = grad + row * rows.width;
    Real products = 0;
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      products += Real(g[i]) * Real(weight[i]) * Real(in[i]);
    }
    const Real s = scale[row];
    const Real pull = block_sum(products) / Real(rows.width) * s * s;
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      grad_x[row * rows.width + i] = T(s * (Real(g[i]) * Real(weight[i]) - Real(in[i]) * pull));
    }
  }
}

unsigned blocks(Rows rows) {
  return static_cast<unsigned>(std::min<int64_t>(rows.count, 1 << 20));
}

// Whole warps: as many threads as a row keeps busy.
unsigned threads(Rows rows) {
  return static_cast<unsigned>(std::min<int64_t>((rows.width + kWarp - 1) / kWarp * kWarp, kMostThreads));
}

}  // namespace

template <typename T>
void launch_forward(
    Rows rows, const T* x, const T* weight, double eps, T* out, Compute<T>* scale, cudaStream_t stream) {
  forward<<<blocks(rows), threads(rows), 0, stream>>>(rows, x, weight, eps, out, scale);
}

template <typename T>
void launch_backward(
    Rows rows, const T* grad, const T* x, const T* weight, const Compute<T>* scale, T* grad_x, cudaStream_t stream) {
  backward<<<blocks(rows), threads(rows), 0, stream>>>(rows, grad, x, weight, scale, grad_x);
}

#define INSTANTIATE(T)                                                                          \
  template void launch_forward(Rows, const T*, const T*, double, T*, Compute<T>*, cudaStream_t); \
  template void launch_backward(Rows, const T*, const T*, const T*, const Compute<T>*, T*, cudaStream_t);

INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(__nv_bfloat16)
INSTANTIATE(__half)

}  // namespace rms_norm
