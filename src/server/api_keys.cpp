#include "server/api_keys.h"

#include <algorithm>
#include <cctype>

namespace stemma {

namespace {

bool equal_in_constant_time(std::string_view key, std::string_view given) {
  unsigned difference = key.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char expected = key[i % key.size()];
    difference |= static_cast<unsigned char>(expected) ^ static_cast<unsigned char>(given[i]);
  }
  return difference == 0;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](unsigned char a, unsigned char b) {
           return std::tolower(a) == std::tolower(b);
         });
}

}  // namespace

bool ApiKeys::allow(std::string_view authorization, std::string_view x_api_key) const {
  if (keys_.empty()) return true;
  constexpr std::string_view scheme = "Bearer ";
  const std::string_view bearer =
      starts_with_ignoring_case(authorization, scheme) ? authorization.substr(scheme.size()) : std::string_view();
  bool allowed = false;
  for (const std::string& key : keys_) {
    if (key.empty()) continue;  // an unset variable must not open the door
    if (equal_in_constant_time(key, bearer)) allowed = true;
    if (equal_in_constant_time(key, x_api_key)) allowed = true;
  }
  return allowed;
}

}  // namespace stemma
