// Which tokens would repeat an n-gram: plain C++, knows neither torch nor Python.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

// The n-grams of one growing sequence of tokens.
class Ngrams {
 public:
  // `size` is at least 1.
  explicit Ngrams(std::size_t size) : size_(size) {}

  // Appends a token; the cost does not depend on how many were there.
  void push(int64_t token);

  // The tokens that would complete an n-gram that is there already, in ascending order.
  std::vector<int64_t> repeating() const;

 private:
  std::size_t size_;
  std::vector<int64_t> tail_;  // the last size - 1 tokens, or fewer
  std::map<std::vector<int64_t>, std::set<int64_t>> following_;
};
