#include "text/stop_scanner.h"

#include <algorithm>
#include <utility>

namespace stemma {

void StopScanner::Pattern::advance(char byte) {
  while (matched > 0 && text[matched] != byte) matched = failure[matched];
  if (text[matched] == byte) ++matched;
}

StopScanner::StopScanner(const std::vector<std::string>& stops) {
  patterns_.reserve(stops.size());
  for (const std::string& stop : stops) {
    Pattern pattern{stop, std::vector<std::size_t>(stop.size() + 1, 0)};
    std::size_t border = 0;
    for (std::size_t n = 1; n < stop.size(); ++n) {
      while (border > 0 && stop[border] != stop[n]) border = pattern.failure[border];
      if (stop[border] == stop[n]) ++border;
      pattern.failure[n + 1] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::string StopScanner::push(std::string_view text) {
  if (found_) return {};
  for (const char byte : text) {
    held_ += byte;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      pattern.advance(byte);
      if (pattern.matched < pattern.text.size()) continue;
      if (!found_ || pattern.text.size() > patterns_[*found_].text.size()) found_ = i;
    }
    if (found_) {
      held_.resize(held_.size() - patterns_[*found_].text.size());
      return std::exchange(held_, {});
    }
  }
  std::size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.matched);
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return certain;
}

std::string StopScanner::finish() { return std::exchange(held_, {}); }

}  // namespace stemma
