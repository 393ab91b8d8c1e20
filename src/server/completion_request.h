#pragma once
// POST /v1/completions, /v1/chat/completions and /v1/cache/explain: from JSON to what the engine
// runs.

#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace stemma {

enum class CompletionApi { text, chat };

struct CompletionRequest {
  CompletionApi api;
  std::vector<GenerationRequest> choices;  // choice k of prompt p at p * choices_per_prompt + k
  std::size_t choices_per_prompt = 1;
  std::vector<std::string> stop;
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage (stream_options)
  bool return_token_ids = false;
  bool logprobs = false;
  bool cache_report = false;  // says what was reused, and why not more
};

// What turning text into prompts needs.
struct PromptContext {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat_template;
  Depth context_length;
};

// Strict: a field of a wrong type or range, an unknown field and a feature that is not there are errors; defaults are
// OpenAI's. Ranges of sampling parameters and token ids are the engine's to check. Thread-safe. O(body + tokens).
// Errors: `request_*`, `chat_*`.
ApiResult<CompletionRequest> parse_completion_request(CompletionApi api, std::string_view body,
                                                      const PromptContext& context);

// POST /v1/cache/explain: the body of either call, chat if it has messages. Its one prompt, as the
// engine would get it. Errors: the same; more than one prompt is refused.
ApiResult<GenerationRequest> parse_explain_request(std::string_view body,
                                                   const PromptContext& context);

}  // namespace stemma
