#pragma once
// What the fuzz targets share: how a broken property ends one, and how an input is taken apart.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace stemma::fuzz {

// libFuzzer keeps the input that led here.
inline void require(bool holds, std::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(property.size()), property.data());
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Sections between lines of "=====", at most `count`; the last has all the rest. Seeds can be written by hand so.
inline std::vector<std::string> sections_of(std::string_view text, std::size_t count) {
  constexpr std::string_view line = "\n=====\n";
  std::vector<std::string> sections;
  while (sections.size() + 1 < count) {
    const std::size_t end = text.find(line);
    if (end == text.npos) break;
    sections.emplace_back(text.substr(0, end));
    text.remove_prefix(end + line.size());
  }
  sections.emplace_back(text);
  sections.resize(count);
  return sections;
}

}  // namespace stemma::fuzz
