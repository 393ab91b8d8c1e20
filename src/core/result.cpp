#include "core/result.h"

#include "core/error_catalogue.h"

namespace stemma {

std::string Error::to_string() const {
  std::string text = "[";
  text += error_entry(code_).code;
  text += "] ";
  text += message_;
  return text;
}

Error make_error(ErrorCode code,
                 std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  const std::string_view pattern = error_entry(code).message;
  std::string message;
  for (std::size_t i = 0; i < pattern.size();) {
    const std::size_t close = pattern[i] == '{' ? pattern.find('}', i) : std::string_view::npos;
    if (close == std::string_view::npos) {
      message += pattern[i++];
      continue;
    }
    const std::string_view name = pattern.substr(i + 1, close - i - 1);
    const auto* field = fields.begin();
    while (field != fields.end() && field->first != name) ++field;
    message += field != fields.end() ? field->second : std::string(pattern.substr(i, close - i + 1));
    i = close + 1;
  }
  return Error(code, std::move(message));
}

tl::unexpected<Error> fail(ErrorCode code,
                           std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  return tl::unexpected<Error>(make_error(code, fields));
}

}  // namespace stemma
