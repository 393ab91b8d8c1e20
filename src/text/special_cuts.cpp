#include "text/special_cuts.h"

#include <algorithm>
#include <cctype>

namespace stemma {

namespace {

constexpr std::size_t kMostSpecials = 2048;  // in a part, where it can be cut

}  // namespace

std::vector<std::string_view> cut_at_specials(std::string_view text, const TextSet& specials) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  std::size_t inside = 0;   // appearances since `begin`
  std::size_t covered = 0;  // end of all appearances so far
  for (auto match = specials.find(text, 0); match;) {
    const auto next = specials.find(text, match->begin + 1);
    const bool alone = covered <= match->begin && (!next || next->begin >= match->end);
    if (inside >= kMostSpecials && alone && !std::isspace(static_cast<unsigned char>(text[match->begin - 1]))) {
      parts.push_back(text.substr(begin, match->begin - begin));
      begin = match->begin;
      inside = 0;
    }
    ++inside;
    covered = std::max(covered, match->end);
    match = next;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace stemma
