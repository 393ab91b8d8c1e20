// Any bytes as the body of a call: it becomes requests that the engine may get, or an error with a code, a status and a message
// that JSON can hold. The first byte names the call.

#include "engine/engine.h"
#include "property.h"
#include "served_model.h"
#include "server/completion_request.h"
#include "server/text_handlers.h"
#include "text/sampler.h"

namespace stemma::fuzz {
namespace {

constexpr Depth kContext = 512;

void check_error(const ApiError& error) {
  const HttpReply reply = error_reply(error);
  require(reply.status >= 400 && reply.status < 500, "a request's error is the client's");
  require(nlohmann::json::accept(reply.body), "an error is JSON");
}

void check_choice(const GenerationRequest& choice) {
  require(choice.prompt.size() <= static_cast<std::size_t>(kContext), "a prompt fits the context");
  require(choice.max_tokens >= 0, "as many tokens as there are");
  require(choice.sampling.logprobs >= -1 && choice.sampling.logprobs <= 20, "few log-probabilities");
  require(choice.retention_seconds >= 0, "a time");
  Depth last = 0;
  for (const Depth end : choice.message_ends) {
    require(end > last && end < static_cast<Depth>(choice.prompt.size()), "message ends increase inside the prompt");
    last = end;
  }
  static_cast<void>(Sampler::create(choice.sampling, tokenizer()));
}

void check(std::string_view input) {
  if (input.empty()) return;
  const std::string_view body = input.substr(1);
  const PromptContext context{tokenizer(), chat_template(), kContext};
  switch (input[0]) {
    case 'c':
    case 'm': {
      const auto api = input[0] == 'c' ? CompletionApi::text : CompletionApi::chat;
      const auto request = parse_completion_request(api, body, context);
      if (!request) return check_error(request.error());
      require(request->choices.size() <= 1024, "not too many choices");
      require(request->choices.size() % request->choices_per_prompt == 0, "as many choices of each prompt");
      require(request->stop.size() <= 16, "not too many stop strings");
      for (const GenerationRequest& choice : request->choices) check_choice(choice);
      break;
    }
    case 'e': {
      const auto request = parse_explain_request(body, context);
      if (!request) return check_error(request.error());
      check_choice(*request);
      break;
    }
    case 't':
    case 'd': {
      const auto answer = input[0] == 't' ? tokenize(tokenizer(), body) : detokenize(tokenizer(), body);
      if (!answer) return check_error(answer.error());
      require(nlohmann::json::accept(to_text(*answer)), "an answer is JSON");
      break;
    }
    default: break;
  }
}

}  // namespace
}  // namespace stemma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stemma::fuzz::check(stemma::fuzz::text_of(data, size));
  return 0;
}
