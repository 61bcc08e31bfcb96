// The border between the torch binding and device code: plain pointers, no torch header.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace log_sum_exp {

enum class Element { float32, float64, bfloat16, float16 };

struct Rows {
  int64_t count;
  int64_t width;
};

// out[r] = log(sum of exp(x[r, c]) over c)
//
// Buffers are dense, and there is at least one row. `out` is float, or double for float64. Throws std::runtime_error.
void forward(Element element, Rows rows, const void* x, void* out, cudaStream_t stream);

// grad_x[r, c] = grad[r] * exp(x[r, c] - out[r]); grad and out are float, or double for float64.
void backward(
    Element element, Rows rows, const void* grad, const void* x, const void* out, void* grad_x, cudaStream_t stream);

}  // namespace log_sum_exp
