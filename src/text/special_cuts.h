#pragma once
// Text with very many special tokens, cut so that libllama tokenizes it in linear time.
//
// libllama keeps the pieces between special tokens in a list and walks it from its start for each special token that it
// finds: ten megabytes of them would take it hours.

#include <string_view>
#include <vector>

#include "text/text_set.h"

namespace stemma {

// `text` in parts with some thousand appearances of `specials` each. Cuts lie before an appearance that overlaps no other and
// follows no white space (which some special tokens swallow), where libllama parts the text in any case: the parts' tokens are
// the whole's. O(text), and O(distinct lengths) at each byte that a special text begins with.
std::vector<std::string_view> cut_at_specials(std::string_view text, const TextSet& specials);

}  // namespace stemma
