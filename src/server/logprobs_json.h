#pragma once
// Log-probabilities in OpenAI's two formats.

#include <cstddef>
#include <span>

#include <nlohmann/json.hpp>

#include "text/sampler.h"
#include "text/tokenizer.h"

namespace stemma {

// {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}, ...]} of chat answers. `bytes` are the token's own; where they
// are not UTF-8 by themselves, `token` spells them as "bytes:\xe2\x80". O(tokens x top).
nlohmann::ordered_json chat_logprobs(const Tokenizer& tokenizer, std::span<const Sampled> tokens);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of text completions. `offset`, in code points of the generated
// text, is where the first token begins, and is moved behind the last. top_logprobs always have the chosen token too.
nlohmann::ordered_json text_logprobs(const Tokenizer& tokenizer, std::span<const Sampled> tokens,
                                     std::size_t& offset);

}  // namespace stemma
