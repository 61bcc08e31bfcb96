// The kernel, once for every backend.
#include "for_each.h"
#include "rotate.h"

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

namespace {

// What is done for one pair. Real is the type of the computation.
template <typename T, typename Real>
struct Pair {
  Rotation rotation;

  HOST_DEVICE void operator()(int64_t row, int64_t i) const {
    const int64_t at = 2 * row * rotation.half + i;
    const int64_t angle = row % rotation.positions * rotation.half + i;
    const T* const x = static_cast<const T*>(rotation.x);
    T* const out = static_cast<T*>(rotation.out);
    const Real a = static_cast<Real>(x[at]);
    const Real b = static_cast<Real>(x[at + rotation.half]);
    const Real cos = static_cast<const Real*>(rotation.cos)[angle];
    const Real sin = static_cast<const Real*>(rotation.sin)[angle];
    const Real turn = rotation.inverse ? -sin : sin;
    out[at] = static_cast<T>(a * cos - b * turn);
    out[at + rotation.half] = static_cast<T>(b * cos + a * turn);
  }
};

template <typename T, typename Real>
void rotate_as(const Rotation& rotation, void* stream) {
  for_each(rotation.rows, rotation.half, stream, Pair<T, Real>{rotation});
}

}  // namespace

void rotate(Element element, const Rotation& rotation, void* stream) {
  switch (element) {
    case Element::float32: return rotate_as<float, float>(rotation, stream);
    case Element::float64: return rotate_as<double, double>(rotation, stream);
    case Element::bfloat16: return rotate_as<torch::headeronly::BFloat16, float>(rotation, stream);
    case Element::float16: return rotate_as<torch::headeronly::Half, float>(rotation, stream);
  }
}
