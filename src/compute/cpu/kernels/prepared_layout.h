#pragma once
// Where the parts of prepared inputs lie (kernels/panels.h): written by prepare_inputs(), read by the products.
//
// Inputs are prepared in groups. For each block of columns a group holds one record of each of its inputs, one input after the
// other: few registers address many inputs, and the quads of 16 are rows of equal distance, as AMX's tiles want them. All parts
// are dwords, at these places in a record:

#include <cstddef>

namespace stemma::kernels {

// InputForm::blocks32: x ~ scale * q, q in [-127, 127].
struct Blocks32Record {
  static constexpr std::size_t group = 16;        // inputs
  static constexpr std::size_t columns = 32;
  static constexpr std::size_t quads = 0;         // 8 of 4 i8: q
  static constexpr std::size_t scale = 8;         // f32, rounded to f16
  static constexpr std::size_t start = 9;         // i32: -128 * sum of q
  static constexpr std::size_t sum = 10;          // i32: sum of q
  static constexpr std::size_t scaled_sum = 11;   // f32: scale * sum, rounded to f16
  static constexpr std::size_t dwords = 12;
};

// InputForm::blocks256.
struct Blocks256Record {
  static constexpr std::size_t group = 16;
  static constexpr std::size_t columns = 256;
  static constexpr std::size_t quads = 0;         // 64 of 4 i8: q
  static constexpr std::size_t scale = 64;        // f32
  static constexpr std::size_t sums16 = 65;       // 8 pairs of i16: sums of 16 q
  static constexpr std::size_t sums32 = 73;       // 4 pairs of i16: sums of 32 q
  static constexpr std::size_t dwords = 80;       // whole cache lines
};

// InputForm::f32, f16, bf16.
struct FloatRecord {
  static constexpr std::size_t group = 4;
  static constexpr std::size_t columns = 1;
  static constexpr std::size_t value = 0;         // f32
  static constexpr std::size_t dwords = 1;
};

template <class Record>
inline constexpr std::size_t record_bytes = Record::dwords * 4;  // from an input of a group to the next
template <class Record>
inline constexpr std::size_t group_record_bytes = Record::group * record_bytes<Record>;  // from a block to the next

}  // namespace stemma::kernels
