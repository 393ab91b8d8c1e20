#include "server/generation.h"

#include <utility>

#include "server/connection.h"

namespace stemma {

Generation::Generation(Engine& engine, const Tokenizer& tokenizer, ServerMetrics& metrics, CompletionRequest request,
                       std::shared_ptr<Connection> reader)
    : engine_(engine),
      tokenizer_(tokenizer),
      metrics_(metrics),
      request_(std::move(request)),
      queue_(std::make_shared<EventQueue>(std::move(reader))),
      unfinished_(request_.choices.size()) {
  choices_.reserve(request_.choices.size());
  for (std::size_t i = 0; i < request_.choices.size(); ++i) {
    choices_.push_back({TextStream(tokenizer_, request_.stop), {}, false, 0, {}});
  }
}

Generation::~Generation() {
  queue_->close();
  for (const Choice& choice : choices_) {
    if (choice.submitted && !choice.result) engine_.cancel(choice.id);
  }
}

Status Generation::submit() {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    auto id = engine_.submit(std::move(request_.choices[i]), EventQueue::sink(queue_, i));
    if (!id) return tl::unexpected<Error>(std::move(id).error());  // the destructor cancels the others
    choices_[i].id = *id;
    choices_[i].submitted = true;
  }
  return {};
}

std::vector<Progress> Generation::advance() {
  std::vector<Progress> progress;
  for (const ChoiceEvent& event : queue_->take()) {
    const Choice& choice = choices_[event.choice];
    if (const auto* sampled = std::get_if<Sampled>(&event.what)) {
      if (!choice.text.stopped()) progress.push_back(take(event.choice, *sampled));
    } else if (auto last = take(event.choice, std::get<GenerationResult>(event.what))) {
      progress.push_back(std::move(*last));
    }
  }
  if (unfinished_ == 0 && !error_) metrics_.whole.observe(std::chrono::duration<double>(Clock::now() - begin_).count());
  return progress;
}

Progress Generation::take(std::size_t index, const Sampled& sampled) {
  Choice& choice = choices_[index];
  if (choice.tokens++ == 0) {
    metrics_.first_token.observe(std::chrono::duration<double>(Clock::now() - begin_).count());
  }
  // The token that ends generation is counted and has no text.
  if (tokenizer_.is_end_of_generation(sampled.token)) return {index, {}, std::nullopt};
  Progress progress{index, choice.text.push(sampled.token), sampled};
  if (choice.text.stopped()) {
    metrics_.stopped.add();
    engine_.cancel(choice.id);
  }
  return progress;
}

std::optional<Progress> Generation::take(std::size_t index, const GenerationResult& result) {
  Choice& choice = choices_[index];
  choice.result = result;
  const bool stopped = choice.text.stopped();
  if (result.reason == FinishReason::error) {
    error_ = result.error.value_or(make_error(ErrorCode::server_internal_error, {{"reason", "generation failed"}}));
    return std::nullopt;
  }
  if (result.reason == FinishReason::cancelled && !stopped) {  // only a server that ends cancels on its own
    error_ = make_error(ErrorCode::server_shutting_down);
    return std::nullopt;
  }
  --unfinished_;
  return Progress{index, choice.text.finish(), std::nullopt, true};
}

const char* Generation::finish_reason(std::size_t choice) const {
  const Choice& c = choices_[choice];
  return c.text.stopped() || c.result->reason == FinishReason::end_of_generation ? "stop" : "length";
}

// The engine may have been some tokens further when a stop string was seen.
int Generation::completion_tokens(const Choice& choice) const {
  return choice.text.stopped() ? choice.tokens : choice.result->completion_tokens;
}

Usage Generation::usage() const {
  Usage usage;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    usage.completion_tokens += completion_tokens(choice);
    if (i % request_.choices_per_prompt != 0) continue;
    usage.prompt_tokens += choice.result->prompt_tokens;
    usage.cached_tokens += choice.result->cached_tokens;
  }
  return usage;
}

Timings Generation::timings() const {
  Timings timings;
  for (const Choice& choice : choices_) {
    timings.cache_n += choice.result->cached_tokens;
    timings.prompt_n += choice.result->prompt_tokens - choice.result->cached_tokens;
    timings.prompt_ms += choice.result->timings.prompt_ms;
    timings.predicted_n += completion_tokens(choice);
    timings.predicted_ms += choice.result->timings.predicted_ms;
  }
  return timings;
}

}  // namespace stemma
