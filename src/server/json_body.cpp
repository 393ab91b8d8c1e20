#include "server/json_body.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stemma {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 64;

// Whether brackets nest deeper than the limit. Exact for valid JSON; what is not valid is the parser's to refuse.
bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// The library's text without its "[json.exception.parse_error.101] " in front.
std::string reason_of(const json::exception& e) {
  const std::string_view what = e.what();
  const std::size_t bracket = what.find("] ");
  return std::string(bracket == what.npos ? what : what.substr(bracket + 2));
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ApiResult<json> parse_json_object(std::string_view text) {
  if (nests_too_deep(text)) {
    return tl::unexpected<ApiError>(
        make_error(ErrorCode::request_json_too_deep, {{"limit", std::to_string(kMaxDepth)}}));
  }
  try {
    json value = json::parse(text);
    if (value.is_object()) return value;
    return tl::unexpected<ApiError>(make_error(
        ErrorCode::request_bad_json, {{"reason", std::string("an object is expected, not ") + value.type_name()}}));
  } catch (const json::exception& e) {  // syntax and UTF-8, with line and column; numbers beyond a double
    return tl::unexpected<ApiError>(make_error(ErrorCode::request_bad_json, {{"reason", reason_of(e)}}));
  }
}

const json* FieldReader::find(std::string_view name) {
  read_.push_back(name);
  const auto field = object_.find(name);
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

void FieldReader::boolean(std::string_view name, bool& value) {
  const json* field = find(name);
  if (!field) return;
  if (!field->is_boolean()) return reject(name, "must be true or false");
  value = field->get<bool>();
}

void FieldReader::text(std::string_view name, std::string& value) {
  const json* field = find(name);
  if (!field) return;
  if (!field->is_string()) return reject(name, "must be a string");
  value = field->get<std::string>();
}

void FieldReader::number(std::string_view name, float& value) {
  const json* field = find(name);
  if (!field) return;
  if (!field->is_number()) return reject(name, "must be a number");
  const double wide = field->get<double>();
  if (!(std::abs(wide) <= std::numeric_limits<float>::max())) return reject(name, "is out of range");
  value = static_cast<float>(wide);
}

void FieldReader::integer(std::string_view name, std::int64_t low, std::int64_t high,
                          std::optional<std::int64_t>& value) {
  const json* field = find(name);
  if (!field) return;
  const std::string expected =
      "must be an integer from " + std::to_string(low) + " to " + std::to_string(high);
  // Numbers beyond 64 bits are floating point to the parser; those above int64 are unsigned.
  if (!field->is_number_integer()) return reject(name, expected);
  if (field->is_number_unsigned() &&
      field->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return reject(name, expected);
  }
  const auto number = field->get<std::int64_t>();
  if (number < low || number > high) return reject(name, expected);
  value = number;
}

void FieldReader::integer(std::string_view name, std::int64_t low, std::int64_t high, int& value) {
  std::optional<std::int64_t> wide;
  integer(name, low, high, wide);
  if (wide) value = static_cast<int>(*wide);
}

void FieldReader::reject(std::string_view name, std::string reason) {
  reject(ApiError(make_error(ErrorCode::request_bad_field,
                             {{"field", std::string(name)}, {"reason", std::move(reason)}}),
                  std::string(name)));
}

void FieldReader::reject(ApiError error) {
  if (!error_) error_ = std::move(error);
}

std::optional<ApiError> FieldReader::finish(std::span<const UnsupportedField> unsupported,
                                            std::span<const std::string_view> harmless) {
  for (const auto& [name, value] : object_.items()) {
    if (error_) break;
    if (value.is_null() || contains(read_, name) || contains(harmless, name)) continue;
    const auto known = std::find_if(unsupported.begin(), unsupported.end(),
                                    [&name = name](const UnsupportedField& field) { return field.name == name; });
    if (known == unsupported.end()) {
      reject(ApiError(make_error(ErrorCode::request_unknown_field, {{"field", name}}), name));
    } else if (const json neutral = json::parse(known->neutral);
               std::find(neutral.begin(), neutral.end(), value) == neutral.end()) {
      reject(ApiError(make_error(ErrorCode::request_unsupported, {{"field", name}}), name));
    }
  }
  return error_;
}

}  // namespace stemma
