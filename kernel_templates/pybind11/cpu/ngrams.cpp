#include "../common/ngrams.h"

void Ngrams::push(int64_t token) {
  if (tail_.size() + 1 == size_) {
    following_[tail_].insert(token);
  }
  tail_.push_back(token);
  if (tail_.size() == size_) {
    tail_.erase(tail_.begin());
  }
}

std::vector<int64_t> Ngrams::repeating() const {
  const auto found = following_.find(tail_);
  if (found == following_.end()) {
    return {};
  }
  return {found->second.begin(), found->second.end()};
}
