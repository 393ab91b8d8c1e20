#pragma once
// Typed, range-checked reading of an architecture's metadata ("qwen35.block_count").
//
// Keys are given without the architecture's prefix. Errors: `model_missing_key` if a required key is absent,
// `model_bad_key` if a value is outside its range, `gguf_bad_metadata` if it is of another kind. O(log keys).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "models/gguf_file.h"

namespace stemma {

// Inclusive bounds of a number.
template <class T>
struct Range {
  T low;
  T high;
};

// Depths and contexts are 32-bit.
constexpr std::int64_t kMaxContext = 0x7fffffff;

class ConfigReader {
 public:
  // `file` must outlive the reader.
  explicit ConfigReader(const GgufFile& file) : file_(file) {}

  const GgufFile& file() const { return file_; }

  Result<std::int64_t> require_int(std::string_view key, Range<std::int64_t> range) const;
  Result<std::optional<std::int64_t>> find_int(std::string_view key, Range<std::int64_t> range) const;
  Result<std::int64_t> int_or(std::string_view key, std::int64_t otherwise, Range<std::int64_t> range) const;

  Result<double> require_float(std::string_view key, Range<double> range) const;
  Result<std::optional<double>> find_float(std::string_view key, Range<double> range) const;
  Result<double> float_or(std::string_view key, double otherwise, Range<double> range) const;

  Result<std::optional<std::string_view>> find_string(std::string_view key) const;

  // A list of integers, each within `range`.
  Result<std::optional<std::vector<std::int64_t>>> find_ints(std::string_view key, Range<std::int64_t> range) const;

  // A number that exporters write once, or once a layer (`layers` times) though it is the same in all layers that
  // have it: the one value apart from 0.
  Result<std::optional<std::int64_t>> find_uniform(std::string_view key, std::int64_t layers,
                                                   Range<std::int64_t> range) const;

  // Fails with `model_bad_key` if the file asks for something that changes a model's answers and that no
  // architecture here computes: experts, sliding windows, soft caps, scales, ...
  Status reject_unsupported() const;

  tl::unexpected<Error> missing(std::string_view key) const;
  tl::unexpected<Error> bad(std::string_view key, std::string value, std::string reason) const;

 private:
  std::string full(std::string_view key) const;

  const GgufFile& file_;
};

}  // namespace stemma
