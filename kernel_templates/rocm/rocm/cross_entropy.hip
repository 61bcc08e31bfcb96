// Device code: one block per row, blocks stride over the rows. A row is read once: each thread keeps the largest value
// that it met and the sum of exponentials relative to it; wavefronts join such pairs by shuffles, a block in shared
// memory. Wavefronts have 64 lanes on CDNA and 32 on RDNA: only `warpSize` knows.
#include "cross_entropy.h"

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace cross_entropy {
namespace {

constexpr int kLeastLanes = 32;
constexpr int kMostLanes = 64;
constexpr int kMostThreads = 512;

// 16-bit numbers are computed with as float.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

// What exponents are taken relative to: infinities are left where they are, for a difference of two is NaN.
template <typename Real>
__device__ Real finite_or_zero(Real x) {
  return isfinite(x) ? x : Real(0);
}

// A sum of exponentials relative to the largest, or to 0 where that is infinite.
template <typename Real>
struct Exponentials {
  Real largest = -INFINITY;
  Real sum = 0;

  __device__ void join(Real other_largest, Real other_sum) {
    const Real joined = max(largest, other_largest);
    const Real shift = finite_or_zero(joined);
    sum = sum * exp(largest - shift) + other_sum * exp(other_largest - shift);
    largest = joined;
  }

  __device__ void add(Real x) {
    if (!(x <= largest)) {  // larger, or NaN, which stays in the sum
      join(x, exp(x - finite_or_zero(x)));
    } else {
      sum += exp(x - finite_or_zero(largest));
    }
  }

  __device__ Real logarithm() const { return log(sum) + finite_or_zero(largest); }
};

// What all threads of the block have together, in every thread.
template <typename Real>
__device__ Exponentials<Real> joined(Exponentials<Real> mine) {
  __shared__ Real largest[kMostThreads / kLeastLanes];
  __shared__ Real sum[kMostThreads / kLeastLanes];
  for (int step = warpSize / 2; step > 0; step /= 2) {
    mine.join(__shfl_xor(mine.largest, step), __shfl_xor(mine.sum, step));
  }
  if (threadIdx.x % warpSize == 0) {
    largest[threadIdx.x / warpSize] = mine.largest;
    sum[threadIdx.x / warpSize] = mine.sum;
  }
  __syncthreads();
  Exponentials<Real> all;
  for (unsigned wave = 0; wave < blockDim.x / warpSize; ++wave) {
    all.join(largest[wave], sum[wave]);
  }
  __syncthreads();  // the next call may write the two arrays
  return all;
}

__device__ bool names_a_column(int64_t target, Rows rows) {
  return target >= 0 && target < rows.width;
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads) forward_kernel(
    Rows rows, const T* x, const int64_t* target, Compute<T>* loss, Compute<T>* normaliser) {
  using Real = Compute<T>;
  for (int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const T* const in = x + row * rows.width;
    Exponentials<Real> mine;
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      mine.add(Real(in[i]));
    }
    const Real total = joined(mine).logarithm();
    if (threadIdx.x == 0) {
      const int64_t column = target[row];
      normaliser[row] = total;
      loss[row] = names_a_column(column, rows) ? total - Real(in[column]) : Real(0);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads) backward_kernel(
    Rows rows, const Compute<T>* grad, const T* x, const int64_t* target, const Compute<T>* normaliser, T* grad_x) {
  using Real = Compute<T>;
  for (int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    const int64_t column = target[row];
    const bool counts = names_a_column(column, rows);
    for (int64_t i = threadIdx.x; i < rows.width; i += blockDim.x) {
      const int64_t at = row * rows.width + i;
      const Real slope = exp(Real(x[at]) - normaliser[row]) - Real(i == column);
      grad_x[at] = counts ? T(grad[row] * slope) : T(0);
    }
  }
}

unsigned blocks(Rows rows) {
  return static_cast<unsigned>(std::min<int64_t>(rows.count, 1 << 20));
}

// Whole wavefronts of either kind: as many threads as a row keeps busy.
unsigned threads(Rows rows) {
  const int64_t busy = (rows.width + kMostLanes - 1) / kMostLanes * kMostLanes;
  return static_cast<unsigned>(std::clamp<int64_t>(busy, kMostLanes, kMostThreads));
}

void check_launch() {
  if (const hipError_t error = hipGetLastError(); error != hipSuccess) {
    throw std::runtime_error(std::string("cross_entropy: the HIP launch failed: ") + hipGetErrorString(error));
  }
}

// Calls f with a null pointer of the element type.
template <typename F>
void with_type(Element element, const F& f) {
  switch (element) {
    case Element::float32: return f(static_cast<float*>(nullptr));
    case Element::float64: return f(static_cast<double*>(nullptr));
    case Element::bfloat16: return f(static_cast<__hip_bfloat16*>(nullptr));
    case Element::float16: return f(static_cast<__half*>(nullptr));
  }
}

}  // namespace

void forward(
    Element element, Rows rows, const void* x, const int64_t* target, void* loss, void* normaliser,
    hipStream_t stream) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    using Real = Compute<T>;
    forward_kernel<<<blocks(rows), threads(rows), 0, stream>>>(
        rows, static_cast<const T*>(x), target, static_cast<Real*>(loss), static_cast<Real*>(normaliser));
  });
  check_launch();
}

void backward(
    Element element, Rows rows, const void* grad, const void* x, const int64_t* target, const void* normaliser,
    void* grad_x, hipStream_t stream) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    using Real = Compute<T>;
    backward_kernel<<<blocks(rows), threads(rows), 0, stream>>>(
        rows,
        static_cast<const Real*>(grad),
        static_cast<const T*>(x),
        target,
        static_cast<const Real*>(normaliser),
        static_cast<T*>(grad_x));
  });
  check_launch();
}

}  // namespace cross_entropy
