#pragma once
// Where tokens end in the text that they were made from.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "text/tokenizer.h"

namespace stemma {

// For each token, the number of bytes of `text` up to its end; never decreasing. Shorter than `tokens` if their pieces
// stop matching the text. Pieces may differ from it in what tokenizers do to spaces: SentencePiece puts one before a
// piece, and some control tokens swallow those behind them. The first `textless` tokens (a BOS that was added) end at 0.
// O(text).
std::vector<std::size_t> token_ends(const Tokenizer& tokenizer, std::string_view text, std::span<const Token> tokens,
                                    std::size_t textless);

// How many of the tokens end at or before `offset`. O(log tokens).
Depth tokens_within(std::span<const std::size_t> ends, std::size_t offset);

}  // namespace stemma
