#pragma once
// Sizes and names of the element types of GGUF files. A type stores its elements in blocks of fixed length; a row
// of a matrix is a whole number of blocks. The table is our own, so that files can be checked before any library
// sees them; a test compares it with ggml's.
//
// Pure functions over a constant table: any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "compute/tensor.h"

namespace stemma {

struct TypeInfo {
  DType type;
  std::string_view name;    // "Q8_0"
  std::int64_t block;       // elements in a block, >= 1
  std::size_t block_bytes;  // bytes of a block
  bool multipliable;        // linear() and embed() take matrices of this type
};

// All types, by increasing number.
std::span<const TypeInfo> all_types();

// The type with a GGUF file's number for it; nullptr if there is none (never was, or was removed). O(log types).
const TypeInfo* find_type(std::uint32_t gguf_number);

// What is known of `type`, which must be an enumerator. O(log types).
const TypeInfo& type_info(DType type);

// Bytes of a row of `cols` elements; `cols` must be a multiple of the type's block.
std::size_t row_bytes(DType type, std::int64_t cols);

}  // namespace stemma
