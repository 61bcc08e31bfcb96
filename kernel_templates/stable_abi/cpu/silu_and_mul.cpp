// CPU implementation: threads from torch's own pool, vectors from the compiler.
//
// The loops are branch-free so that they vectorise, and are compiled once per instruction set; the dynamic
// loader picks the best version for the machine.
#include "../common/launch.h"
#include "../common/silu.h"

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#define PER_INSTRUCTION_SET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define BASELINE __attribute__((target("default")))
#else
#define PER_INSTRUCTION_SET
#define BASELINE
#endif

namespace silu_and_mul {
namespace {

using torch::headeronly::BFloat16;
using torch::headeronly::Half;

// Results per task: enough work to be worth waking a thread.
constexpr int64_t kGrain = 16384;

// The floating-point layout that exp() needs; `degree` bounds the Taylor error below one rounding step.
template <typename Real>
struct Layout;

template <>
struct Layout<float> {
  using Bits = uint32_t;
  static constexpr int mantissa = 23, bias = 127, degree = 7;
  static constexpr float round = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
};

template <>
struct Layout<double> {
  using Bits = uint64_t;
  static constexpr int mantissa = 52, bias = 1023, degree = 13;
  static constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double ln2_high = 0.693145751953125, ln2_low = 1.42860682030941723212e-6;
};

template <typename To, typename From>
SILU_INLINE To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// Coefficients of the Taylor series of exp(): 1 / k!
template <typename Real>
constexpr auto kCoefficients = [] {
  std::array<Real, Layout<Real>::degree + 1> table{};
  double factorial = 1;
  for (int k = 0; k <= Layout<Real>::degree; ++k) {
    factorial *= k > 0 ? k : 1;
    table[k] = static_cast<Real>(1 / factorial);
  }
  return table;
}();

// exp(x) for x <= 0, to about one unit in the last place; results below the smallest normal number are 0.
template <typename Real>
SILU_INLINE Real exp_nonpositive(Real x) {
  using L = Layout<Real>;
  using Bits = typename L::Bits;
  constexpr Real log2_e = Real(1.44269504088896340736);
  constexpr Real lowest = -Real(L::bias) / log2_e;  // its power of two has the bit pattern of zero

  x = x < lowest ? lowest : x;
  const Real shifted = x * log2_e + L::round;
  const Real n = shifted - L::round;
  const Real r = (x - n * L::ln2_high) - n * L::ln2_low;

  Real series = 0;
  for (int k = L::degree; k >= 0; --k) {
    series = series * r + kCoefficients<Real>[k];
  }
  const Bits power = (bits<Bits>(shifted) + Bits(L::bias)) << L::mantissa;
  return series * bits<Real>(power);
}

template <typename Real>
SILU_INLINE Silu<Real> silu(Real a) {
  return Silu<Real>(a, exp_nonpositive(a < 0 ? a : -a));
}

// 16-bit numbers are computed with as float.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
PER_INSTRUCTION_SET void forward_span(
    const T* __restrict gate, const T* __restrict value, T* __restrict out, int64_t n) {
  using Real = Compute<T>;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = T(silu(Real(gate[i])).value * Real(value[i]));
  }
}

template <typename T>
PER_INSTRUCTION_SET void backward_span(
    const T* __restrict grad,
    const T* __restrict gate,
    const T* __restrict value,
    T* __restrict grad_gate,
    T* __restrict grad_value,
    int64_t n) {
  using Real = Compute<T>;
  for (int64_t i = 0; i < n; ++i) {
    const Silu<Real> s = silu(Real(gate[i]));
    grad_gate[i] = T(Real(grad[i]) * Real(value[i]) * s.derivative);
    grad_value[i] = T(Real(grad[i]) * s.value);
  }
}

BASELINE void convert(const Half* from, float* to, int64_t n) {
  std::copy(from, from + n, to);
}

BASELINE void convert(const float* from, Half* to, int64_t n) {
  std::copy(from, from + n, to);
}

#if defined(__x86_64__)
// gcc 12 has no vector form of these conversions: the instructions are named.
__attribute__((target("arch=x86-64-v3"))) void convert(const Half* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(packed));
  }
  std::copy(from + i, from + n, to + i);
}

__attribute__((target("arch=x86-64-v3"))) void convert(const float* from, Half* to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i packed = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), packed);
  }
  std::copy(from + i, from + n, to + i);
}
#endif

// A piece of a row. Half is converted in blocks that stay in the first-level cache: inside the loop,
// its conversion would cost more than the mathematics.
constexpr int64_t kBlock = 256;

template <typename T>
void forward_piece(const T* gate, const T* value, T* out, int64_t n) {
  forward_span(gate, value, out, n);
}

void forward_piece(const Half* gate, const Half* value, Half* out, int64_t n) {
  float gates[kBlock], values[kBlock], outs[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t size = std::min(kBlock, n - i);
    convert(gate + i, gates, size);
    convert(value + i, values, size);
    forward_span(gates, values, outs, size);
    convert(outs, out + i, size);
  }
}

template <typename T>
void backward_piece(const T* grad, const T* gate, const T* value, T* grad_gate, T* grad_value, int64_t n) {
  backward_span(grad, gate, value, grad_gate, grad_value, n);
}

void backward_piece(
    const Half* grad, const Half* gate, const Half* value, Half* grad_gate, Half* grad_value, int64_t n) {
  float grads[kBlock], gates[kBlock], values[kBlock], grad_gates[kBlock], grad_values[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t size = std::min(kBlock, n - i);
    convert(grad + i, grads, size);
    convert(gate + i, gates, size);
    convert(value + i, values, size);
    backward_span(grads, gates, values, grad_gates, grad_values, size);
    convert(grad_gates, grad_gate + i, size);
    convert(grad_values, grad_value + i, size);
  }
}

// Calls piece(position in x, position in out, length) for pieces of rows, in parallel over all results.
template <typename Piece>
void for_each_piece(Rows rows, const Piece& piece) {
  torch::stable::parallel_for(0, rows.count * rows.width, kGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t row = begin / rows.width;
      const int64_t length = std::min(end, (row + 1) * rows.width) - begin;
      piece(begin + row * rows.width, begin, length);
      begin += length;
    }
  });
}

// Calls f with a null pointer of the element type.
template <typename F>
void with_type(Element element, const F& f) {
  switch (element) {
    case Element::float32: return f(static_cast<float*>(nullptr));
    case Element::float64: return f(static_cast<double*>(nullptr));
    case Element::bfloat16: return f(static_cast<BFloat16*>(nullptr));
    case Element::float16: return f(static_cast<Half*>(nullptr));
  }
}

}  // namespace

void forward(Element element, Rows rows, const void* x, void* out, void* /*stream*/) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const from = static_cast<const T*>(x);
    T* const to = static_cast<T*>(out);
    for_each_piece(rows, [&](int64_t in, int64_t at, int64_t n) {
      forward_piece(from + in, from + in + rows.width, to + at, n);
    });
  });
}

void backward(Element element, Rows rows, const void* grad, const void* x, void* grad_x, void* /*stream*/) {
  with_type(element, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const g = static_cast<const T*>(grad);
    const T* const from = static_cast<const T*>(x);
    T* const to = static_cast<T*>(grad_x);
    for_each_piece(rows, [&](int64_t in, int64_t at, int64_t n) {
      backward_piece(g + at, from + in, from + in + rows.width, to + in, to + in + rows.width, n);
    });
  });
}

}  // namespace silu_and_mul
