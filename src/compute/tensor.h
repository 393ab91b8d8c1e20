#pragma once
// Plain descriptions of data: element types, host views of a file's tensors, and the handles that operations
// pass around. No library's types appear here.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stemma {

// The element types of GGUF files, with GGUF's own numbers: a file's type field casts to this once find_type()
// (compute/dtype.h) knows it.
enum class DType : std::uint32_t {
  f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q5_0 = 6, q5_1 = 7, q8_0 = 8, q8_1 = 9, q2_k = 10,
  q3_k = 11, q4_k = 12, q5_k = 13, q6_k = 14, q8_k = 15, iq2_xxs = 16, iq2_xs = 17,
  iq3_xxs = 18, iq1_s = 19, iq4_nl = 20, iq3_s = 21, iq2_s = 22, iq4_xs = 23, i8 = 24,
  i16 = 25, i32 = 26, i64 = 27, f64 = 28, iq1_m = 29, bf16 = 30, tq1_0 = 34, tq2_0 = 35,
  mxfp4 = 39, nvfp4 = 40, q1_0 = 41, q2_0 = 42,
};

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
