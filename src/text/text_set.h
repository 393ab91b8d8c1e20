#pragma once
// A set of strings, and where they appear in text.

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stemma {

// Thread-safe once filled.
class TextSet {
 public:
  struct Match {
    std::size_t begin, end;
  };

  // `text` is not empty.
  void insert(std::string text) {
    begins_[static_cast<unsigned char>(text.front())] = true;
    const auto place = std::lower_bound(lengths_.begin(), lengths_.end(), text.size(), std::greater<>());
    if (place == lengths_.end() || *place != text.size()) lengths_.insert(place, text.size());
    texts_.insert(std::move(text));
  }

  // The first appearance that begins at or after `from`, the longest of those that begin there. O(text), and
  // O(distinct lengths) at each byte that a string of the set begins with.
  std::optional<Match> find(std::string_view text, std::size_t from) const {
    for (std::size_t i = from; i < text.size(); ++i) {
      if (!begins_[static_cast<unsigned char>(text[i])]) continue;
      for (const std::size_t length : lengths_)
        if (length <= text.size() - i && texts_.contains(std::string(text.substr(i, length))))
          return Match{i, i + length};
    }
    return std::nullopt;
  }

  // Bytes of the longest string; 0 of an empty set.
  std::size_t longest() const { return lengths_.empty() ? 0 : lengths_.front(); }

 private:
  std::unordered_set<std::string> texts_;
  std::vector<std::size_t> lengths_;  // distinct, falling
  std::array<bool, 256> begins_{};
};

}  // namespace stemma
