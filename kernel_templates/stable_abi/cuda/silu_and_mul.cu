// CUDA implementation: one thread moves 16 bytes at a time, in blocks shaped to the rows.
//
// No torch header is included, so this object is compiled once and serves every torch version.
#include "../common/launch.h"
#include "../common/silu.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace silu_and_mul {
namespace {

constexpr int kThreads = 256;

// float for the 16-bit types: they are stored, never computed with.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ void narrow(float x, float& to) { to = x; }
__device__ __forceinline__ void narrow(double x, double& to) { to = x; }
__device__ __forceinline__ void narrow(float x, __half& to) { to = __float2half_rn(x); }
__device__ __forceinline__ void narrow(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

template <typename Real>
__device__ __forceinline__ Silu<Real> silu(Real a) {
  return Silu<Real>(a, exp(-fabs(a)));
}

// `size` neighbours that move in one memory access.
template <typename T, int size>
struct alignas(sizeof(T) * size) Pack {
  T lane[size];
};

// Row and column loops over packs: threads of a warp take neighbouring columns, blocks stride over the rest.
template <typename F>
__device__ __forceinline__ void for_each_pack(Rows rows, const F& f) {
  const int64_t row_step = int64_t(gridDim.x) * blockDim.y;
  const int64_t column_step = int64_t(gridDim.y) * blockDim.x;
  const int64_t first = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  for (int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; row < rows.count; row += row_step) {
    for (int64_t column = first; column < rows.width; column += column_step) {
      f(row, column);
    }
  }
}

// Here and below, `rows.width` counts packs.
template <typename T, int size>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(Rows rows, const Pack<T, size>* __restrict__ x, Pack<T, size>* __restrict__ out) {
  for_each_pack(rows, [&](int64_t row, int64_t column) {
    const int64_t at = 2 * row * rows.width + column;
    const Pack<T, size> gate = x[at];
    const Pack<T, size> value = x[at + rows.width];
    Pack<T, size> result;
#pragma unroll
    for (int i = 0; i < size; ++i) {
      narrow(silu(widen(gate.lane[i])).value * widen(value.lane[i]), result.lane[i]);
    }
    out[row * rows.width + column] = result;
  });
}

template <typename T, int size>
__global__ void __launch_bounds__(kThreads) backward_kernel(
    Rows rows,
    const Pack<T, size>* __restrict__ grad,
    const Pack<T, size>* __restrict__ x,
    Pack<T, size>* __restrict__ grad_x) {
  for_each_pack(rows, [&](int64_t row, int64_t column) {
    const int64_t at = 2 * row * rows.width + column;
    const Pack<T, size> g = grad[row * rows.width + column];
    const Pack<T, size> gate = x[at];
    const Pack<T, size> value = x[at + rows.width];
    Pack<T, size> grad_gate;
    Pack<T, size> grad_value;
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const Compute<T> incoming = widen(g.lane[i]);
      const Silu<Compute<T>> s = silu(widen(gate.lane[i]));
      narrow(incoming * widen(value.lane[i]) * s.derivative, grad_gate.lane[i]);
      narrow(incoming * s.value, grad_value.lane[i]);
    }
    grad_x[at] = grad_gate;
    grad_x[at + rows.width] = grad_value;
  });
}

// Whether every half row of every buffer starts at a multiple of 16 bytes, and so ends at one: no tail.
bool aligned(int64_t row_bytes, std::initializer_list<const void*> buffers) {
  return row_bytes % 16 == 0 && std::all_of(buffers.begin(), buffers.end(), [](const void* buffer) {
    return reinterpret_cast<uintptr_t>(buffer) % 16 == 0;
  });
}

struct Shape {
  dim3 grid, block;
};

// Blocks of kThreads: as many columns as a row fills, rounded up to a power of two, then rows.
Shape shape_of(Rows rows) {
  unsigned columns = 1;
  while (columns < kThreads && columns < rows.width) {
    columns *= 2;
  }
  const unsigned lines = kThreads / columns;
  const auto blocks = [](int64_t items, unsigned each, int64_t most) {
    return static_cast<unsigned>(std::min((items + each - 1) / each, most));
  };
  return {{blocks(rows.count, lines, 1 << 20), blocks(rows.width, columns, 65535)}, {columns, lines}};
}

void check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("silu_and_mul: the CUDA launch failed: ") +
                             cudaGetErrorString(error));
  }
}

template <typename T, int size>
void launch_forward(Rows rows, const void* x, void* out, cudaStream_t stream) {
  using P = Pack<T, size>;
  rows.width /= size;
  const Shape shape = shape_of(rows);
  forward_kernel<T, size><<<shape.grid, shape.block, 0, stream>>>(
      rows, static_cast<const P*>(x), static_cast<P*>(out));
  check_launch();
}

template <typename T, int size>
void launch_backward(Rows rows, const void* grad, const void* x, void* grad_x, cudaStream_t stream) {
  using P = Pack<T, size>;
  rows.width /= size;
  const Shape shape = shape_of(rows);
  backward_kernel<T, size><<<shape.grid, shape.block, 0, stream>>>(
      rows, static_cast<const P*>(grad), static_cast<const P*>(x), static_cast<P*>(grad_x));
  check_launch();
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

void forward(Element element, Rows rows, const void* x, void* out, void* stream) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool wide = aligned(rows.width * sizeof(T), {x, out});
    const auto launch = wide ? launch_forward<T, 16 / sizeof(T)> : launch_forward<T, 1>;
    launch(rows, x, out, static_cast<cudaStream_t>(stream));
  });
}

void backward(Element element, Rows rows, const void* grad, const void* x, void* grad_x, void* stream) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool wide = aligned(rows.width * sizeof(T), {grad, x, grad_x});
    const auto launch = wide ? launch_backward<T, 16 / sizeof(T)> : launch_backward<T, 1>;
    launch(rows, grad, x, grad_x, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace silu_and_mul
