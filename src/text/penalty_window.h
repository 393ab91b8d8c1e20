#pragma once
// The last n tokens of a request and how often each occurs among them, for the penalties.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "core/ids.h"

namespace stemma {

// Holds at most `capacity` tokens in order, and their counts: counts() has exactly the tokens inside, all counts > 0.
class PenaltyWindow {
 public:
  // capacity -1: no limit (then the order is not kept, only the counts).
  explicit PenaltyWindow(int capacity) : capacity_(capacity) {}

  // Adds a token, and drops the oldest if that would be one too many. O(1).
  void push(Token token) {
    if (capacity_ == 0) return;
    ++counts_[token];
    if (capacity_ < 0) return;
    order_.push_back(token);
    if (order_.size() <= static_cast<std::size_t>(capacity_)) return;
    const auto oldest = counts_.find(order_.front());
    if (--oldest->second == 0) counts_.erase(oldest);
    order_.pop_front();
  }

  const std::unordered_map<Token, std::int32_t>& counts() const { return counts_; }

 private:
  int capacity_;
  std::deque<Token> order_;
  std::unordered_map<Token, std::int32_t> counts_;
};

}  // namespace stemma
