// GgufFile over one GgufPart, or over all parts of a split file. Part 1 of a split file holds the metadata; each
// part holds split.no (its index from 0), split.count, and some of the tensors.

#include "models/gguf_file.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "models/gguf_part.h"

namespace stemma {
namespace {

constexpr std::int64_t kMaxParts = 99999;  // five digits in the name

// "model-00001-of-00003.gguf" for ("model", 0, 3).
std::string part_path(const std::string& stem, std::int64_t index, std::int64_t count) {
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, "-%05lld-of-%05lld.gguf", static_cast<long long>(index + 1),
                static_cast<long long>(count));
  return stem + suffix;
}

class PartsFile final : public GgufFile {
 public:
  explicit PartsFile(std::vector<GgufPart> parts) : parts_(std::move(parts)) {}

  // Gathers the parts' tensors; fails if two share a name or the architecture is missing.
  Status index() {
    for (const GgufPart& part : parts_) {
      for (const GgufTensor& tensor : part.tensors()) tensors_.push_back(tensor);
    }
    for (const GgufTensor& tensor : tensors_) {
      if (!by_name_.emplace(tensor.name, &tensor).second) {
        return fail(ErrorCode::gguf_bad_tensor, {{"file", path()},
                                                 {"tensor", printable(tensor.name)},
                                                 {"reason", "it appears in two parts of the split file"}});
      }
    }
    STEMMA_TRY(const auto architecture, find_string("general.architecture"));
    if (!architecture || architecture->empty()) return bad("general.architecture", "it is missing");
    architecture_ = printable(*architecture);
    return {};
  }

  const std::string& path() const override { return parts_.front().path(); }
  const std::string& architecture() const override { return architecture_; }

  Result<std::optional<std::int64_t>> find_int(std::string_view key) const override {
    return find_scalar<std::int64_t>(key, read_int, "it is not an integer that fits 64 bits");
  }
  Result<std::optional<double>> find_float(std::string_view key) const override {
    return find_scalar<double>(key, read_float, "it is not a number");
  }

  Result<std::optional<bool>> find_bool(std::string_view key) const override {
    const GgufValue* value = parts_.front().find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_array || value->kind != GgufKind::boolean) return bad(key, "it is not a boolean");
    return read_int(*value, 0) == 1;
  }

  Result<std::optional<std::string_view>> find_string(std::string_view key) const override {
    const GgufValue* value = parts_.front().find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_array || value->kind != GgufKind::string) return bad(key, "it is not a string");
    return read_strings(*value).front();
  }

  Result<std::optional<std::vector<std::int64_t>>> find_ints(std::string_view key) const override {
    return find_all<std::int64_t>(key, read_int, "it does not consist of integers that fit 64 bits");
  }
  Result<std::optional<std::vector<double>>> find_floats(std::string_view key) const override {
    return find_all<double>(key, read_float, "it does not consist of numbers");
  }

  Result<std::optional<std::vector<std::string_view>>> find_strings(std::string_view key) const override {
    const GgufValue* value = parts_.front().find(key);
    if (value == nullptr) return std::nullopt;
    if (value->kind != GgufKind::string) return bad(key, "it does not consist of strings");
    return read_strings(*value);
  }

  std::span<const GgufTensor> tensors() const override { return tensors_; }

  const GgufTensor* find_tensor(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  std::vector<std::span<const std::byte>> headers() const override {
    std::vector<std::span<const std::byte>> headers;
    for (const GgufPart& part : parts_) headers.push_back(part.header());
    return headers;
  }

 private:
  tl::unexpected<Error> bad(std::string_view key, std::string reason) const {
    return fail(ErrorCode::gguf_bad_metadata,
                {{"file", path()}, {"key", printable(key)}, {"reason", std::move(reason)}});
  }

  template <class T>
  using ReadElement = std::optional<T> (*)(const GgufValue&, std::uint64_t);

  template <class T>
  Result<std::optional<T>> find_scalar(std::string_view key, ReadElement<T> read, const char* otherwise) const {
    const GgufValue* value = parts_.front().find(key);
    if (value == nullptr) return std::nullopt;
    const std::optional<T> number = value->is_array ? std::nullopt : read(*value, 0);
    if (!number || value->kind == GgufKind::boolean) return bad(key, otherwise);
    return number;
  }

  template <class T>
  Result<std::optional<std::vector<T>>> find_all(std::string_view key, ReadElement<T> read,
                                                 const char* otherwise) const {
    const GgufValue* value = parts_.front().find(key);
    if (value == nullptr) return std::nullopt;
    if (value->kind == GgufKind::string) return bad(key, otherwise);
    std::vector<T> numbers;
    numbers.reserve(value->count);
    for (std::uint64_t i = 0; i < value->count; ++i) {
      const std::optional<T> number = read(*value, i);
      if (!number) return bad(key, otherwise);
      numbers.push_back(*number);
    }
    return numbers;
  }

  std::vector<GgufPart> parts_;  // at least one; part 0 has the metadata
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, const GgufTensor*, std::less<>> by_name_;  // views and points into tensors_
  std::string architecture_;
};

// An optional split.* number of a part. Errors: `gguf_split_incomplete`.
Result<std::optional<std::int64_t>> split_number(const GgufPart& part, const char* key) {
  const GgufValue* value = part.find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->is_array ? std::nullopt : read_int(*value, 0);
  if (!number) {
    return fail(ErrorCode::gguf_bad_metadata,
                {{"file", part.path()}, {"key", key}, {"reason", "it is not an integer that fits 64 bits"}});
  }
  return number;
}

// Opens the parts that `parts`, which holds the first file, says there are.
Status open_other_parts(std::vector<GgufPart>& parts) {
  const std::string path = parts.front().path();
  const auto incomplete = [&](std::string reason) {
    return fail(ErrorCode::gguf_split_incomplete, {{"file", path}, {"reason", std::move(reason)}});
  };
  STEMMA_TRY(const auto count, split_number(parts.front(), "split.count"));
  if (!count || *count == 1) return {};
  if (*count < 1 || *count > kMaxParts) return incomplete("split.count is " + std::to_string(*count));
  STEMMA_TRY(const auto first, split_number(parts.front(), "split.no"));
  if (first != 0) {
    return incomplete("it is not the first part of a split file: open the part that ends in -00001-of-...");
  }
  const std::string suffix = part_path("", 0, *count);
  if (!path.ends_with(suffix)) {
    return incomplete("it is the first of " + std::to_string(*count) + " parts, but its name does not end in " +
                      suffix + ", so the others cannot be found");
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
  for (std::int64_t i = 1; i < *count; ++i) {
    const std::string next = part_path(stem, i, *count);
    auto part = GgufPart::open(next);
    if (!part) {
      if (part.error().code() != ErrorCode::gguf_not_found) return tl::unexpected(part.error());
      return incomplete("part " + next + " is missing");
    }
    STEMMA_TRY(const auto number, split_number(*part, "split.no"));
    STEMMA_TRY(const auto total, split_number(*part, "split.count"));
    if (number != i || total != count) return incomplete(next + " is not part " + std::to_string(i + 1) + " of it");
    parts.push_back(std::move(*part));
  }
  STEMMA_TRY(const auto expected, split_number(parts.front(), "split.tensors.count"));
  std::size_t tensors = 0;
  for (const GgufPart& part : parts) tensors += part.tensors().size();
  if (expected && static_cast<std::uint64_t>(*expected) != tensors) {
    return incomplete("its parts hold " + std::to_string(tensors) + " tensors, not the " +
                      std::to_string(*expected) + " that split.tensors.count promises");
  }
  return {};
}

}  // namespace

HostMatrix GgufTensor::matrix() const {
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) rows *= shape[i];
  return {name, type, shape[0], rows, data, bytes};
}

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  std::vector<GgufPart> parts;
  STEMMA_TRY(auto first, GgufPart::open(path));
  parts.push_back(std::move(first));
  STEMMA_CHECK(open_other_parts(parts));
  auto file = std::make_shared<PartsFile>(std::move(parts));
  STEMMA_CHECK(file->index());
  return file;
}

}  // namespace stemma
