#pragma once
// One GGUF file on disk, checked: its metadata and its tensors. The format (version 2 and 3, little-endian):
//   "GGUF", u32 version, u64 tensor count, u64 key count,
//   keys:    string name, u32 kind, value          (string = u64 length, bytes; array = u32 kind, u64 count, values)
//   tensors: string name, u32 dimensions, u64 each, u32 element type, u64 offset from the data section's start
//   padding to general.alignment, then the data section.
// Source: ggml's docs/gguf.md.
//
// Invariants: every view points into the mapping; each tensor lies inside the data section, aligned, and no two
// overlap; names and keys are unique. Nothing is allocated by a number from the file before as many bytes as it
// claims have been seen to be there. Threads: immutable after parse(). Cost of parse(): O(bytes of metadata).

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "models/gguf_file.h"
#include "models/mapped_file.h"

namespace stemma {

// GGUF's numbers for the kinds of metadata values.
enum class GgufKind : std::uint32_t {
  u8 = 0, i8 = 1, u16 = 2, i16 = 3, u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9, u64 = 10,
  i64 = 11, f64 = 12,
};

// A metadata value where it lies in the file: `count` elements of `kind`, one after the other, unaligned. A scalar
// is an array of one.
struct GgufValue {
  GgufKind kind;
  bool is_array;
  std::uint64_t count;
  const std::byte* data;
};

// Reads element `i` of a number or boolean value as an integer; nullopt if the kind has no integers or it does not
// fit. O(1).
std::optional<std::int64_t> read_int(const GgufValue& value, std::uint64_t i);
// The same as floating point; integers and booleans convert.
std::optional<double> read_float(const GgufValue& value, std::uint64_t i);
// All strings of a string value, as views into the file. O(count).
std::vector<std::string_view> read_strings(const GgufValue& value);

// Text from a file, fit for a message: at most 64 bytes, unprintable ones as \xNN.
std::string printable(std::string_view text);

class GgufPart {
 public:
  // Opens and checks one file. Errors: `gguf_*`.
  static Result<GgufPart> open(const std::string& path);

  const std::string& path() const { return path_; }
  const GgufValue* find(std::string_view key) const;
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // The bytes before the data section.
  std::span<const std::byte> header() const { return file_.bytes().first(header_bytes_); }

 private:
  class Parser;
  GgufPart(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  MappedFile file_;
  std::map<std::string_view, GgufValue> metadata_;  // keys view the mapping
  std::vector<GgufTensor> tensors_;                 // in the file's order
  std::size_t header_bytes_ = 0;
};

}  // namespace stemma
