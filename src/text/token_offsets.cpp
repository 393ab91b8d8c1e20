#include "text/token_offsets.h"

#include <algorithm>
#include <string>

namespace stemma {

std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::string_view text, std::span<const Token> tokens,
                                    std::size_t textless) {
  constexpr std::string_view spaces = " \t\n\v\f\r";
  std::vector<std::size_t> ends;
  ends.reserve(tokens.size());
  std::size_t end = 0;
  for (const Token token : tokens) {
    if (ends.size() < textless) {
      ends.push_back(0);
      continue;
    }
    const std::string piece = tokenizer.piece(token, true);
    const std::string_view rest = text.substr(end);
    const std::size_t swallowed = std::min(rest.find_first_not_of(spaces), rest.size());
    if (rest.starts_with(piece)) {
      end += piece.size();
    } else if (piece.starts_with(' ') && rest.starts_with(std::string_view(piece).substr(1))) {
      end += piece.size() - 1;
    } else if (rest.substr(swallowed).starts_with(piece)) {
      end += swallowed + piece.size();
    } else {
      break;
    }
    ends.push_back(end);
  }
  return ends;
}

Depth tokens_within(std::span<const std::size_t> ends, std::size_t offset) {
  return static_cast<Depth>(std::upper_bound(ends.begin(), ends.end(), offset) - ends.begin());
}

}  // namespace stemma
