#pragma once
// Text without a space for very long, cut so that libllama can tokenize it.
//
// libllama splits text for some pre-tokenizers with std::regex, whose matcher recurses once a character: a match of
// some 20,000 characters overflows a thread's stack of 8 MiB. None of the patterns matches across both a space and what
// follows the next one, so matches are as short as runs of spaces or of other characters are.

#include <string_view>
#include <vector>

#include "text/text_set.h"

namespace stemma {

// Whether the pre-tokenizer splits text with loops of libllama's own, which need no cutting.
bool splits_without_regex(std::string_view pre_tokenizer);

// `text` in parts in which no run of ASCII spaces, and none of other characters, is longer than 8192 characters. Cuts lie
// between characters and never inside a string of `whole`. O(text).
std::vector<std::string_view> cut_long_runs(std::string_view text, const TextSet& whole);

}  // namespace stemma
