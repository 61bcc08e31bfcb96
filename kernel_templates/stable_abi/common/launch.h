// The border between the torch binding and the compute code: plain pointers, no torch header.
//
// A variant compiles exactly one implementation. Because device code does not include
// torch, one compiled .cu object serves every torch version.
#pragma once

#include <cstdint>

namespace silu_and_mul {

enum class Element { float32, float64, bfloat16, float16 };

// `count` rows: of x, `width` gates followed by `width` values; of the output, `width` results.
struct Rows {
  int64_t count;
  int64_t width;
};

// out[r, c] = silu(x[r, c]) * x[r, width + c]
//
// All buffers are dense and do not overlap; there is at least one result. `stream` is the CUDA stream
// of the current device; the CPU has none and ignores it. Throws std::runtime_error.
void forward(Element element, Rows rows, const void* x, void* out, void* stream);

// grad_x[r, c]         = grad[r, c] * x[r, width + c] * silu'(x[r, c])
// grad_x[r, width + c] = grad[r, c] * silu(x[r, c])
void backward(Element element, Rows rows, const void* grad, const void* x, void* grad_x, void* stream);

}  // namespace silu_and_mul
