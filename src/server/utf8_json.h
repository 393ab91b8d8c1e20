#pragma once
// Bytes of tokens in JSON, whose strings hold UTF-8 only.

#include <string>

#include <nlohmann/json.hpp>

#include "text/utf8_assembler.h"

namespace stemma {

// Whether JSON can hold the bytes as a string. O(length).
inline bool is_utf8(const std::string& bytes) {
  Utf8Assembler characters;  // puts U+FFFD in place of what is not UTF-8
  std::string text = characters.push(bytes);
  text += characters.finish();
  return text == bytes;
}

// The bytes as an array of numbers.
inline nlohmann::ordered_json bytes_json(const std::string& bytes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

}  // namespace stemma
