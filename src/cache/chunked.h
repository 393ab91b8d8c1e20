#pragma once
// Values by dense numbers, in chunks: growing moves no value but those of the first chunk, so no
// call takes long because there are many, and at most one chunk is partly unused.
//
// Threads: none. Costs: O(1) a call; O(new values) to grow.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace stemma {

template <class T>
class Chunked {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  const T& operator[](std::size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  T& back() { return (*this)[size_ - 1]; }

  // Makes it have `size` values at least; new ones equal T{}.
  void grow_to(std::size_t size) {
    if (size <= size_) return;
    reserve(size);
    size_ = size;
  }
  void push_back(T value) {
    reserve(size_ + 1);
    (*this)[size_++] = std::move(value);
  }
  void pop_back() { back() = T{}, --size_; }

  std::size_t metadata_bytes() const {
    return room_ * sizeof(T) + chunks_.capacity() * sizeof(chunks_[0]);
  }

 private:
  static constexpr std::size_t kChunk = 1024;

  void reserve(std::size_t size) {
    if (size <= room_) return;
    if (room_ < kChunk) {  // the first chunk grows
      const std::size_t room = std::min(kChunk, std::max(size, room_ + room_ / 4 + 4));
      std::unique_ptr<T[]> first(new T[room]{});
      if (!chunks_.empty()) {
        std::move(chunks_[0].get(), chunks_[0].get() + size_, first.get());
        chunks_[0] = std::move(first);
      } else {
        chunks_.push_back(std::move(first));
      }
      room_ = room;
    }
    for (; room_ < size; room_ += kChunk) chunks_.emplace_back(new T[kChunk]{});
  }

  std::vector<std::unique_ptr<T[]>> chunks_;  // all of kChunk values, but a lone one of room_
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

}  // namespace stemma
