#pragma once
// Memory of the CPU device: zeroed mappings for what lives long, and an arena for the tensors of a step.

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace stemma {

constexpr std::size_t kCacheLine = 64;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Bytes of a page of the machine: memory is taken and given back in these.
std::size_t machine_page_bytes();

// Whether a mapping's memory comes in large blocks, which is faster to address, or page by page as
// it is written.
enum class Residency { in_blocks, as_written };

// Zeroed bytes, aligned to a page of the machine. Move-only owner.
class Mapping {
 public:
  Mapping() = default;
  // count * size bytes, which may overflow. `what` names them in the error `out_of_memory`.
  static Result<Mapping> create(std::size_t count, std::size_t size, std::string_view what,
                                Residency residency = Residency::in_blocks);
  ~Mapping();
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

  // Gives the machine's pages that lie wholly inside [offset, offset + bytes) back; they are zero
  // when they are next read.
  void release(std::size_t offset, std::size_t bytes);

  // Takes the memory of [0, bytes) from the machine now: writes zeros, so to be called before anything is written.
  void populate(std::size_t bytes);

 private:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

// Stack-like memory: what was allocated last is freed first. It grows in blocks while a step needs more than any
// before it; when it is empty again, its blocks become one, so that later steps of that size allocate nothing.
// Terminates the process (std::bad_alloc) when the machine has no memory left for a step. One thread.
class Arena {
 public:
  // A position to return to.
  struct Mark {
    std::size_t block;
    std::size_t used;
  };

  // `bytes` uninitialised bytes, aligned to a cache line. O(1) unless it grows.
  std::byte* allocate(std::size_t bytes);

  template <class T>
  std::span<T> allocate_array(std::size_t count) {
    return {reinterpret_cast<T*>(allocate(count * sizeof(T))), count};
  }

  Mark mark() const { return {block_, used_}; }
  // Frees all that was allocated since `mark` was taken.
  void release(Mark mark);

  std::size_t capacity() const;

 private:
  std::vector<Mapping> blocks_;
  std::size_t block_ = 0;  // index of the block that is being filled
  std::size_t used_ = 0;   // bytes of it in use
};

}  // namespace stemma
