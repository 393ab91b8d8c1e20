#pragma once
// One number of bytes that several slot pools share: what pages take,
// checkpoints cannot, and the other way round. It counts the memory that is
// resident, used or not: a free slot of one pool keeps its bytes until it is
// cooled (slot_pool.h).
//
// Threads: none; the cache's thread owns it. Costs: O(1).

#include <cassert>
#include <cstdint>

namespace stemma {

class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t capacity) : capacity_(capacity) {}

  // All of `bytes`, or false and nothing.
  bool take(std::uint64_t bytes) {
    if (bytes > room()) return false;
    used_ += bytes;
    return true;
  }
  void give(std::uint64_t bytes) {
    assert(bytes <= used_);
    used_ -= bytes;
  }

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t room() const { return capacity_ - used_; }

 private:
  const std::uint64_t capacity_;
  std::uint64_t used_ = 0;
};

}  // namespace stemma
