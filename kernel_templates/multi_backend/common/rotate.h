// The border between the torch binding and the kernel.
#pragma once

#include <cstdint>

enum class Element { float32, float64, bfloat16, float16 };

// Dense buffers: x and out of shape (rows, 2 * half), cos and sin of shape (positions, half); row r has position
// r % positions. cos and sin are float, or double for float64. There is at least one number.
struct Rotation {
  int64_t rows, positions, half;
  const void *x, *cos, *sin;
  void* out;
  bool inverse;
};

// Turns each pair (x[r, i], x[r, half + i]) by its angle, or back. `stream` is the stream of the current device; the CPU
// ignores it. Throws std::runtime_error.
void rotate(Element element, const Rotation& rotation, void* stream);
