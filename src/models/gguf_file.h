#pragma once
// A GGUF file (or all parts of a split one), opened, validated and mapped. Nothing of it reaches ggml or libllama
// before open() has checked it: magic, version, counts, lengths, types, name uniqueness, alignment, offsets,
// overflow, overlap and that every tensor lies inside the file.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compute/tensor.h"
#include "core/result.h"

namespace stemma {

struct GgufTensor {
  std::string name;
  DType type;
  std::vector<std::int64_t> shape;  // ggml's order, innermost first; 1 to 4 entries
  const std::byte* data;            // mapped
  std::size_t bytes;

  // As a matrix of shape[0] columns and the product of the rest as rows.
  HostMatrix matrix() const;
};

class GgufFile {
 public:
  // Opens `path`; for part 1 of a split file (…-00001-of-0000N.gguf) also its other parts. O(metadata).
  // Errors: `gguf_not_found`, `gguf_bad_magic`, `gguf_truncated`, `gguf_bad_metadata`, `gguf_bad_tensor`, ...
  static Result<std::shared_ptr<const GgufFile>> open(const std::string& path);

  virtual ~GgufFile() = default;

  virtual const std::string& path() const = 0;
  virtual const std::string& architecture() const = 0;  // general.architecture

  // Typed look-up of metadata. Absent keys give nullopt; a key of another kind gives `gguf_bad_metadata`. Integers
  // of all widths convert if they fit. O(log keys).
  virtual Result<std::optional<std::int64_t>> find_int(std::string_view key) const = 0;
  virtual Result<std::optional<double>> find_float(std::string_view key) const = 0;
  virtual Result<std::optional<bool>> find_bool(std::string_view key) const = 0;
  virtual Result<std::optional<std::string_view>> find_string(std::string_view key) const = 0;
  // Arrays; a scalar counts as an array of one, a boolean as 0 or 1. Views stay valid as long as the file.
  virtual Result<std::optional<std::vector<std::int64_t>>> find_ints(std::string_view key) const = 0;
  virtual Result<std::optional<std::vector<double>>> find_floats(std::string_view key) const = 0;
  virtual Result<std::optional<std::vector<std::string_view>>> find_strings(std::string_view key) const = 0;

  // All tensors of all parts, by name. O(1) and O(log tensors).
  virtual std::span<const GgufTensor> tensors() const = 0;
  virtual const GgufTensor* find_tensor(std::string_view name) const = 0;

  // Of each part, the bytes before its tensor data: all metadata and descriptions of tensors.
  virtual std::vector<std::span<const std::byte>> headers() const = 0;
};

}  // namespace stemma
