#pragma once
// Plain descriptions of data: element types, host views of a file's tensors, and the handles that operations
// pass around. No library's types appear here.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stemma {

// The element types of GGUF files, with GGUF's own numbers: a file's type field casts to this once it has been
// checked against type_info(). Blocks hold `block` elements in `bytes` bytes.
enum class DType : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q8_0 = 8, q4_k = 12, bf16 = 30 };

// A matrix in host memory, as a GGUF file stores it: `rows` rows of `cols` elements, row after row. ggml writes
// this as ne = [cols, rows]. Does not own the bytes.
struct HostMatrix {
  std::string_view name;  // the tensor's name, for messages
  DType type;
  std::int64_t cols;
  std::int64_t rows;
  const std::byte* data;
  std::size_t bytes;
};

// A result inside one step: `rows` tokens (or other rows) of `cols` floats. A handle to something the device
// owns until the scope it was made in ends (Ops::Scope); copying it copies the handle.
struct Tensor {
  std::uint32_t id;    // the device's name for it
  std::int64_t offset; // first column seen (a view of some columns has the id of the whole)
  std::int64_t cols;
  std::int64_t rows;

  // The columns [first, first + count). O(1), no copy.
  Tensor columns(std::int64_t first, std::int64_t count) const {
    return {id, offset + first, count, rows};
  }
};

}  // namespace stemma
