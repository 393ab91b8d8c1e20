#pragma once
// Where the parts of prepared inputs lie (kernels/panels.h): written by prepare_inputs(), read by the products.
//
// Inputs are prepared in groups of kInputGroup. All parts are dwords; a dword of the group's first input is followed by that of
// the second and so on, so that a tile of inputs is read through one address a group. For each block of columns a group
// holds one record, whose parts are at these dwords:

#include <cstddef>

namespace stemma::kernels {

constexpr std::size_t kInputGroup = 4;
constexpr std::size_t kGroupDword = 4 * kInputGroup;  // bytes from one dword of an input to its next

// InputForm::blocks32: x ~ scale * q, q in [-127, 127].
struct Blocks32Record {
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
  static constexpr std::size_t columns = 256;
  static constexpr std::size_t quads = 0;         // 64 of 4 i8: q
  static constexpr std::size_t scale = 64;        // f32
  static constexpr std::size_t sums16 = 65;       // 8 pairs of i16: sums of 16 q
  static constexpr std::size_t sums32 = 73;       // 4 pairs of i16: sums of 32 q
  static constexpr std::size_t dwords = 77;
};

// InputForm::f32, f16, bf16: a column is a record of one f32.

}  // namespace stemma::kernels
