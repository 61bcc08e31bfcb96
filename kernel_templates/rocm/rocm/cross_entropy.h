// The border between the torch binding and device code: plain pointers, no torch header.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>

namespace cross_entropy {

enum class Element { float32, float64, bfloat16, float16 };

struct Rows {
  int64_t count;
  int64_t width;
};

// normaliser[r] = log(sum of exp(x[r, c]) over c)
// loss[r]       = normaliser[r] - x[r, target[r]], 0 where target[r] is no column
//
// Buffers are dense, and there is at least one row. Losses and normalisers are float, or double for float64. Throws
// std::runtime_error.
void forward(
    Element element, Rows rows, const void* x, const int64_t* target, void* loss, void* normaliser, hipStream_t stream);

// grad_x[r, c] = grad[r] * (exp(x[r, c] - normaliser[r]) - (c == target[r])), 0 where target[r] is no column
void backward(
    Element element, Rows rows, const void* grad, const void* x, const int64_t* target, const void* normaliser,
    void* grad_x, hipStream_t stream);

}  // namespace cross_entropy
