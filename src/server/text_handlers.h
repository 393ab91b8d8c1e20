#pragma once
// POST /tokenize and /detokenize (llama-server's).

#include <string_view>

#include "server/api_error.h"
#include "text/tokenizer.h"

namespace stemma {

// {"content" or "prompt", "add_special": false, "parse_special": true, "with_pieces": false} -> {"tokens": [...]}, with pieces
// {"id", "piece"} each, where a piece that is not UTF-8 is an array of its bytes. Thread-safe. O(text).
ApiResult<nlohmann::ordered_json> tokenize(const Tokenizer& tokenizer, std::string_view body);

// {"tokens": [...]} -> {"content"}. Errors: `request_token_out_of_range`. Thread-safe. O(tokens).
ApiResult<nlohmann::ordered_json> detokenize(const Tokenizer& tokenizer, std::string_view body);

}  // namespace stemma
