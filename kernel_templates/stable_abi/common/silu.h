// The mathematics of one element, shared by every backend.
#pragma once

#if defined(__CUDACC__)
#define SILU_INLINE __host__ __device__ __forceinline__
#else
#define SILU_INLINE inline __attribute__((always_inline))
#endif

namespace silu_and_mul {

// silu(a) = a * sigmoid(a) and its derivative.
//
// `decay` is exp(-|a|): it never overflows, and 1 - sigmoid(a) comes out without cancellation.
template <typename Real>
struct Silu {
  Real value;
  Real derivative;

  SILU_INLINE Silu(Real a, Real decay) {
    const Real larger = Real(1) / (Real(1) + decay);
    const Real smaller = decay * larger;
    const Real sigmoid = a < Real(0) ? smaller : larger;
    const Real complement = a < Real(0) ? larger : smaller;
    value = a * sigmoid;
    derivative = sigmoid * (Real(1) + a * complement);
  }
};

}  // namespace silu_and_mul
