#pragma once
// A request's body as JSON: parsed within limits, and read field by field.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/api_error.h"

namespace stemma {

// The body's JSON object. Nesting deeper than 64 is refused before anything is built from it, because walking a
// value recurses. Errors: `request_bad_json` (with the position), `request_json_too_deep`. O(text).
ApiResult<nlohmann::json> parse_json_object(std::string_view text);

// A field that Stemma does not have: harmless as long as its value is among `neutral` (a JSON array) or null.
struct UnsupportedField {
  std::string_view name;
  std::string_view neutral;
};

// Reads an object's fields into variables. It remembers the first error and the names that were read, so a parser is a list of
// fields followed by one finish(). A field that is absent or null leaves its variable alone.
class FieldReader {
 public:
  explicit FieldReader(const nlohmann::json& object) : object_(object) {}

  // The field's value, if it is there and not null. For fields of several types.
  const nlohmann::json* find(std::string_view name);

  void boolean(std::string_view name, bool& value);
  void text(std::string_view name, std::string& value);
  // Rejects what a float cannot hold.
  void number(std::string_view name, float& value);
  // Rejects fractions and what lies outside [low, high].
  void integer(std::string_view name, std::int64_t low, std::int64_t high, std::optional<std::int64_t>& value);
  void integer(std::string_view name, std::int64_t low, std::int64_t high, int& value);

  // Records an error about a field unless there is one already.
  void reject(std::string_view name, std::string reason);
  void reject(ApiError error);

  // The first error; or else, for the fields that nobody read: `request_unsupported` for those of `unsupported` with a
  // value that is not neutral, `request_unknown_field` for those that are not in `harmless` either.
  std::optional<ApiError> finish(std::span<const UnsupportedField> unsupported,
                                 std::span<const std::string_view> harmless);

  const std::optional<ApiError>& error() const { return error_; }

 private:
  const nlohmann::json& object_;
  std::vector<std::string_view> read_;
  std::optional<ApiError> error_;
};

}  // namespace stemma
