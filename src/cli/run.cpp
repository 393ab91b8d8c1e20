// stemma run: one prompt, its continuation on standard output as it is made, the timings on standard error.

#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "engine/engine.h"
#include "text/chat_template.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

namespace stemma {

namespace {

// Prints what is generated, on the engine's thread; another thread waits for the end.
class Printer : public RequestSink {
 public:
  explicit Printer(const Tokenizer& tokenizer) : text_(tokenizer, {}) {}

  void on_token(const Sampled& token) override { print(text_.push(token.token)); }

  void on_finish(const GenerationResult& result) override {
    print(text_.finish());
    const std::lock_guard lock(mutex_);
    result_ = result;
    finished_.notify_all();
  }

  GenerationResult wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return result_.has_value(); });
    return *result_;
  }

 private:
  static void print(const std::string& text) { std::cout << text << std::flush; }

  TextStream text_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::optional<GenerationResult> result_;  // guarded by mutex_
};

Result<GenerationRequest> request_of(const Options& options, const Tokenizer& tokenizer) {
  GenerationRequest request;
  request.sampling = options.run.sampling;
  request.max_tokens = options.run.tokens;
  if (!options.run.chat) {
    request.prompt = tokenizer.encode(options.run.prompt, /*add_special=*/true, /*parse_special=*/false);
    return request;
  }
  STEMMA_TRY(const std::string source, read_chat_template(options.chat_template));
  STEMMA_TRY(const auto chat_template, ChatTemplate::load(tokenizer, source));
  const nlohmann::json messages = {{{"role", "user"}, {"content", options.run.prompt}}};
  STEMMA_TRY(ChatPrompt prompt, chat_template->apply(messages, nlohmann::json::object()));
  request.prompt = std::move(prompt.tokens);
  request.message_ends = std::move(prompt.message_ends);
  return request;
}

void print_timings(const GenerationResult& result) {
  const GenerationTimings& timings = result.timings;
  const auto speed = [](int tokens, double ms) { return ms > 0 ? 1000.0 * tokens / ms : 0.0; };
  std::fprintf(stderr, "\nprompt     %6d tokens in %8.1f ms, %7.1f tokens/s\n", result.prompt_tokens,
               timings.prompt_ms, speed(result.prompt_tokens, timings.prompt_ms));
  std::fprintf(stderr, "generated  %6d tokens in %8.1f ms, %7.1f tokens/s\n", result.completion_tokens,
               timings.predicted_ms, speed(result.completion_tokens, timings.predicted_ms));
}

}  // namespace

Status run_command(const CommandInput& input) {
  STEMMA_TRY(const OpenedModel opened, open_model(input));
  const Options& options = opened.resolved.options;
  STEMMA_TRY(const auto tokenizer, Tokenizer::load(*opened.file));
  STEMMA_TRY(GenerationRequest request, request_of(options, *tokenizer));
  STEMMA_TRY(const auto engine, Engine::create(options.engine, *opened.model, *opened.device, *tokenizer));

  const auto printer = std::make_shared<Printer>(*tokenizer);
  STEMMA_CHECK(engine->submit(std::move(request), printer));
  const GenerationResult result = printer->wait();
  if (result.error) return tl::unexpected<Error>(*result.error);
  print_timings(result);
  return {};
}

}  // namespace stemma
