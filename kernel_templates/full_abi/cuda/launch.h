// The border between torch and device code: plain pointers, no torch header.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace rms_norm {

// 16-bit numbers are computed with as float.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

struct Rows {
  int64_t count;
  int64_t width;
};

// See rms_norm.h; T is float, double, __nv_bfloat16 or __half.
template <typename T>
void launch_forward(
    Rows rows, const T* x, const T* weight, double eps, T* out, Compute<T>* scale, cudaStream_t stream);

template <typename T>
void launch_backward(
    Rows rows, const T* grad, const T* x, const T* weight, const Compute<T>* scale, T* grad_x, cudaStream_t stream);

}  // namespace rms_norm
