#pragma once
// Finds the first of several stop strings in text that arrives in pieces, and gives out what cannot belong to one.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stemma {

// The stop string found is the one that ends first; of those that end at the same byte, the longest; of equal ones, the
// first in the list. So the result does not depend on how the text was cut.
//
// Invariant between calls, while nothing is found: held_ is the longest suffix of the text so far that is a proper
// prefix of some stop string (found with the failure functions of Knuth, Morris and Pratt, one for each string).
class StopScanner {
 public:
  // Stop strings are non-empty. O(total length).
  explicit StopScanner(const std::vector<std::string>& stops);

  // The text that became certain. After a stop string was found: what stood before it, and nothing from then on.
  // O(text * stops), amortised, whatever the strings' lengths.
  std::string push(std::string_view text);

  // What is still held back.
  std::string finish();

  // Index of the stop string found.
  std::optional<std::size_t> found() const { return found_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> failure;  // [n]: the longest proper prefix of text[0, n) that is also its suffix
    std::size_t matched = 0;           // longest prefix that the text so far ends with

    void advance(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<std::size_t> found_;
};

}  // namespace stemma
