// How a backend walks over a matrix: all that the two do not share.
#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#define HOST_DEVICE __host__ __device__ __forceinline__

template <typename F>
__global__ void __launch_bounds__(256) call(int64_t rows, int64_t columns, F f) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
    f(i / columns, i % columns);
  }
}

// Calls f(row, column), by neighbouring threads for neighbouring columns.
template <typename F>
void for_each(int64_t rows, int64_t columns, void* stream, const F& f) {
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((rows * columns + 255) / 256, 1 << 20));
  call<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(rows, columns, f);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("the launch failed: ") + cudaGetErrorString(error));
  }
}

#else

#include <torch/csrc/stable/ops.h>

#define HOST_DEVICE inline __attribute__((always_inline))

// Calls f(row, column), rows over torch's own threads, in tasks that are worth waking one.
template <typename F>
void for_each(int64_t rows, int64_t columns, void* /*stream*/, const F& f) {
  const int64_t grain = std::max<int64_t>(1, 16384 / columns);
  torch::stable::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
#pragma GCC ivdep
      for (int64_t column = 0; column < columns; ++column) {
        f(row, column);
      }
    }
  });
}

#endif
