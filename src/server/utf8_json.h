#pragma once
// Bytes of tokens in JSON, whose strings hold UTF-8 only.

#include <string>

#include <nlohmann/json.hpp>

namespace stemma {

// Whether JSON can hold the bytes as a string. O(length).
inline bool is_utf8(const std::string& bytes) {
  try {
    (void)nlohmann::ordered_json(bytes).dump();
    return true;
  } catch (const nlohmann::ordered_json::exception&) {
    return false;
  }
}

// The bytes as an array of numbers.
inline nlohmann::ordered_json bytes_json(const std::string& bytes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

}  // namespace stemma
