// The Python module: a class with state, which an operator of torch cannot be.
#include <ATen/core/Tensor.h>
#include <ATen/ops/index_fill.h>
#include <ATen/ops/select.h>
#include <ATen/ops/tensor.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <limits>
#include <vector>

#include "../common/ngrams.h"

namespace {

class NgramBlocker {
 public:
  NgramBlocker(int64_t batch, int64_t size) {
    TORCH_CHECK_VALUE(batch >= 0, "NgramBlocker: `batch` must not be negative, and is ", batch);
    TORCH_CHECK_VALUE(size >= 1, "NgramBlocker: `size` must be at least 1, and is ", size);
    sequences_.assign(batch, Ngrams(size));
  }

  void extend(const at::Tensor& tokens) {
    TORCH_CHECK_VALUE(
        tokens.dim() == 2 && tokens.size(0) == batch(),
        "NgramBlocker: `tokens` must have shape (", batch(), ", n), not ", tokens.sizes());
    TORCH_CHECK_TYPE(
        tokens.scalar_type() == at::kLong, "NgramBlocker: `tokens` must be int64, not ", tokens.scalar_type());
    const at::Tensor dense = tokens.cpu().contiguous();
    const int64_t* token = dense.const_data_ptr<int64_t>();
    for (Ngrams& sequence : sequences_) {
      for (int64_t i = 0; i < dense.size(1); ++i) {
        sequence.push(*token++);
      }
    }
  }

  std::vector<std::vector<int64_t>> banned() const {
    std::vector<std::vector<int64_t>> found;
    for (const Ngrams& sequence : sequences_) {
      found.push_back(sequence.repeating());
    }
    return found;
  }

  at::Tensor mask_(const at::Tensor& logits) const {
    TORCH_CHECK_VALUE(
        logits.dim() == 2 && logits.size(0) == batch(),
        "NgramBlocker: `logits` must have shape (", batch(), ", vocabulary), not ", logits.sizes());
    TORCH_CHECK_TYPE(
        logits.is_floating_point(), "NgramBlocker: `logits` must be floating point, not ", logits.scalar_type());
    for (int64_t row = 0; row < batch(); ++row) {
      const std::vector<int64_t> tokens = sequences_[row].repeating();
      logits.select(0, row).index_fill_(
          0, at::tensor(tokens, at::kLong).to(logits.device()), -std::numeric_limits<double>::infinity());
    }
    return logits;
  }

  int64_t batch() const { return static_cast<int64_t>(sequences_.size()); }

 private:
  std::vector<Ngrams> sequences_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  // module_local: two versions of the kernel in one process must not take each other's class for their own.
  pybind11::class_<NgramBlocker>(module, "NgramBlocker", pybind11::module_local(), R"(
Remembers the n-grams of a batch of growing sequences and says which tokens would repeat one.

Args:
    batch: Number of sequences.
    size: Length of the n-grams, at least 1.
)")
      .def(pybind11::init<int64_t, int64_t>(), pybind11::arg("batch"), pybind11::arg("size"))
      .def("extend", &NgramBlocker::extend, pybind11::arg("tokens"), "Append int64 `tokens`, shape (batch, n).")
      .def("banned", &NgramBlocker::banned, "The tokens that would repeat an n-gram: a sorted list a sequence.")
      .def(
          "mask_",
          &NgramBlocker::mask_,
          pybind11::arg("logits"),
          "Set the banned tokens of `logits`, shape (batch, vocabulary), to minus infinity, in place; return it.");
}
