#include "replay/trace_lines.h"

#include <cmath>

namespace stemma::replay {

using nlohmann::json;

std::optional<std::string_view> TraceLines::peek() {
  if (peeked_) return line_;
  while (std::getline(input_, line_)) {
    ++number_;
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    if (line_.find_first_not_of(" \t") == std::string::npos) continue;
    peeked_ = true;
    return line_;
  }
  return std::nullopt;
}

std::optional<std::string_view> TraceLines::next() {
  const auto line = peek();
  peeked_ = false;
  return line;
}

tl::unexpected<Error> TraceLines::bad(std::string_view reason) const {
  return fail(
      ErrorCode::trace_bad_line,
      {{"file", file_}, {"line", std::to_string(number_)}, {"reason", std::string(reason)}});
}

Result<std::optional<json>> TraceLines::next_object() {
  const auto line = next();
  if (!line) return std::optional<json>();
  json object = json::parse(*line, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return bad("it is not JSON; perhaps the file is cut off");
  if (!object.is_object()) return bad("it is not a JSON object");
  return std::optional<json>(std::move(object));
}

Result<double> TraceLines::number(const json& object, const char* field, double min,
                                  double max) const {
  const auto found = object.find(field);
  if (found == object.end()) return bad(std::string("the field ") + field + " is missing");
  if (!found->is_number()) return bad(std::string("the field ") + field + " is not a number");
  const auto value = found->get<double>();
  if (!(value >= min && value <= max)) {
    return bad(std::string("the field ") + field + " is out of range: " + found->dump());
  }
  return value;
}

Result<double> TraceLines::number_or(const json& object, const char* field,
                                     double otherwise) const {
  if (!object.contains(field)) return otherwise;
  return number(object, field, 0, 1e12);
}

Result<std::int64_t> TraceLines::integer(const json& object, const char* field, std::int64_t min,
                                         std::int64_t max) const {
  STEMMA_TRY(const double value,
             number(object, field, static_cast<double>(min), static_cast<double>(max)));
  if (value != std::floor(value))
    return bad(std::string("the field ") + field + " is not a whole number");
  return static_cast<std::int64_t>(value);
}

Result<const json*> TraceLines::array(const json& object, const char* field) const {
  const auto found = object.find(field);
  if (found == object.end()) return bad(std::string("the field ") + field + " is missing");
  if (!found->is_array()) return bad(std::string("the field ") + field + " is not a list");
  return &*found;
}

Result<std::vector<std::uint64_t>> TraceLines::ids(const json& object, const char* field) const {
  STEMMA_TRY(const json* const list, array(object, field));
  std::vector<std::uint64_t> result;
  result.reserve(list->size());
  for (const json& id : *list) {
    if (!id.is_number_integer())
      return bad(std::string("the list ") + field + " holds more than whole numbers");
    result.push_back(id.is_number_unsigned() ? id.get<std::uint64_t>()
                                             : static_cast<std::uint64_t>(id.get<std::int64_t>()));
  }
  return result;
}

}  // namespace stemma::replay
