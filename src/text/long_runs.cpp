#include "text/long_runs.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace stemma {

namespace {

constexpr std::size_t kLongestRun = 8192;

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

}  // namespace

bool splits_without_regex(std::string_view pre_tokenizer) {
  constexpr std::array<std::string_view, 16> names = {
      "qwen35",  "qwen2",     "deepseek-r1-qwen", "llama3", "llama-v3", "llama-bpe", "falcon3",   "falcon-h1",
      "pixtral", "midm-2.0",  "lfm2",             "gpt-2",  "phi-2",    "smollm",    "stablelm2", "gemma4"};
  return std::find(names.begin(), names.end(), pre_tokenizer) != names.end();
}

std::vector<std::string_view> cut_long_runs(std::string_view text, const TextSet& whole) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  std::size_t run = 0;
  bool spaces = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;  // not a character's first byte
    if (is_space(text[i]) != spaces) {
      spaces = !spaces;
      run = 0;
    }
    if (++run <= kLongestRun) continue;
    std::size_t cut = i;
    const std::string_view around = text.substr(0, i + whole.longest());
    std::size_t from = i - std::min(i - begin, whole.longest());
    for (auto match = whole.find(around, from); match && match->begin < i; match = whole.find(around, match->begin + 1))
      if (match->end > i) cut = std::min(cut, match->begin);
    if (cut > begin) parts.push_back(text.substr(begin, cut - begin));
    begin = cut;
    run = 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace stemma
