#include "fake_engine.h"

#include <algorithm>
#include <stdexcept>

namespace stemma::testing {

FakeEngine::FakeEngine(const Tokenizer& tokenizer, Depth context_length)
    : tokenizer_(tokenizer), context_length_(context_length) {
  answer("Hello there, this is a test.");
  thread_ = std::thread([this] { loop(); });
}

FakeEngine::~FakeEngine() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status FakeEngine::check(const GenerationRequest& request) const {
  if (request.prompt.empty()) return fail(ErrorCode::request_prompt_empty);
  if (request.prompt.size() >= static_cast<std::size_t>(context_length_)) {
    return fail(ErrorCode::request_prompt_too_long, {{"tokens", std::to_string(request.prompt.size())},
                                                     {"limit", std::to_string(context_length_ - 1)}});
  }
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    const Token token = request.prompt[i];
    if (token < 0 || static_cast<std::size_t>(token) >= tokenizer_.size()) {
      return fail(ErrorCode::request_token_out_of_range, {{"token", std::to_string(token)},
                                                          {"position", std::to_string(i)},
                                                          {"size", std::to_string(tokenizer_.size())}});
    }
  }
  return {};
}

Result<RequestId> FakeEngine::submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) {
  std::lock_guard lock(mutex_);
  if (throw_) throw std::runtime_error("thrown by the test");
  STEMMA_CHECK(check(request));
  STEMMA_TRY(const auto sampler, Sampler::create(request.sampling, tokenizer_));
  if (running_.size() >= limit_) {
    return fail(ErrorCode::request_queue_full, {{"waiting", std::to_string(running_.size())}});
  }
  auto running = std::make_unique<Running>();
  running->sink = std::move(sink);
  running->sampling = request.sampling;
  running->max_tokens = request.max_tokens;
  running->result.prompt_tokens = static_cast<int>(request.prompt.size());
  // As if every prompt that came before were cached.
  for (const GenerationRequest& earlier : submitted_) {
    const auto match = std::mismatch(request.prompt.begin(), request.prompt.end(), earlier.prompt.begin(),
                                     earlier.prompt.end());
    const auto matched = static_cast<int>(match.first - request.prompt.begin());
    running->result.cached_tokens =
        std::max(running->result.cached_tokens, std::min(matched, running->result.prompt_tokens - 1));
  }
  const int cached = running->result.cached_tokens;
  const bool whole = cached == running->result.prompt_tokens - 1;
  running->result.lookup = {cached, cached,
                            whole ? ReuseLimit::whole_prompt : ReuseLimit::no_such_prefix};
  submitted_.push_back(std::move(request));
  running_[++last_id_] = std::move(running);
  stats_.running = running_.size();
  changed_.notify_all();
  return RequestId{last_id_};
}

Status FakeEngine::explain(GenerationRequest request, OnExplained done) {
  {
    std::lock_guard lock(mutex_);
    STEMMA_CHECK(check(request));
    if (paused_) return {};
  }
  const auto length = static_cast<Depth>(request.prompt.size());
  done(Explanation{
      .lookup = {.matched = length, .usable = length - 2, .limit = ReuseLimit::state_not_stored},
      .length = length,
      .checkpoints = {length - 2},
      .forks = {1},
      .evicted_checkpoint = 0,
      .other_namespace_matched = 3,
      .in_flight = 4,
      .planned = {{length - 1, MarkSource::repeat}}});
  return {};
}

void FakeEngine::cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  const auto found = running_.find(index_of(id));
  if (found == running_.end()) return;
  found->second->cancelled = true;
  changed_.notify_all();
}

void FakeEngine::flush_cache() {
  std::lock_guard lock(mutex_);
  ++flushes_;
}

EngineStats FakeEngine::stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.cache.pages = {100, 100, 0, 0};
  stats.cache.rows = {10, 10, 0, 0};
  return stats;
}

void FakeEngine::answer(std::vector<Token> tokens) {
  std::lock_guard lock(mutex_);
  answer_ = std::move(tokens);
}

void FakeEngine::answer(const std::string& text, bool end) {
  std::vector<Token> tokens = tokenizer_.encode(text, false, false);
  if (end) tokens.push_back(tokenizer_.end_of_generation().front());
  answer(std::move(tokens));
}

void FakeEngine::pause(bool paused) {
  std::lock_guard lock(mutex_);
  paused_ = paused;
  changed_.notify_all();
}

void FakeEngine::limit(std::size_t requests) {
  std::lock_guard lock(mutex_);
  limit_ = requests;
}

void FakeEngine::fail_with(std::optional<Error> error) {
  std::lock_guard lock(mutex_);
  failure_ = std::move(error);
}

void FakeEngine::throw_on_submit(bool on) {
  std::lock_guard lock(mutex_);
  throw_ = on;
}

void FakeEngine::stick(std::optional<StuckStep> step) {
  std::lock_guard lock(mutex_);
  stats_.stuck = step;
}

void FakeEngine::wait_until(const std::function<bool(const EngineStats&)>& condition) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return condition(stats_); });
}

std::vector<GenerationRequest> FakeEngine::submitted() const {
  std::lock_guard lock(mutex_);
  return submitted_;
}

std::size_t FakeEngine::flushes() const {
  std::lock_guard lock(mutex_);
  return flushes_;
}

void FakeEngine::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto to_do = [this] {
      return std::any_of(running_.begin(), running_.end(),
                         [this](const auto& entry) { return !paused_ || entry.second->cancelled; });
    };
    changed_.wait(lock, [&] { return stop_ || to_do(); });
    for (auto entry = running_.begin(); entry != running_.end();) {
      Running& running = *entry->second;
      if (stop_ || running.cancelled) {
        running.result.reason = FinishReason::cancelled;
      } else if (paused_ || !advance(running)) {
        ++entry;
        continue;
      }
      const bool cancelled = running.result.reason == FinishReason::cancelled;
      ++(cancelled ? stats_.requests_cancelled : stats_.requests_finished);
      running.result.timings = {1, 10, 20};
      stats_.running = running_.size() - 1;
      running.sink->on_finish(running.result);
      entry = running_.erase(entry);
    }
    changed_.notify_all();
    if (stop_ && running_.empty()) return;
    lock.unlock();  // let the others in
    std::this_thread::yield();
    lock.lock();
  }
}

bool FakeEngine::advance(Running& running) const {
  if (failure_ && running.result.completion_tokens == 2) {
    running.result.reason = FinishReason::error;
    running.result.error = failure_;
    return true;
  }
  if (running.max_tokens == 0) {
    running.result.reason = FinishReason::length;
    return true;
  }
  Sampled sampled;
  sampled.token = answer_[running.next++ % answer_.size()];
  if (running.sampling.logprobs >= 0) sampled.logprob = -0.5f;
  for (int i = 0; i < running.sampling.logprobs; ++i) sampled.top.push_back({100 + i, -1.0f - static_cast<float>(i)});
  ++running.result.completion_tokens;
  running.sink->on_token(sampled);
  if (tokenizer_.is_end_of_generation(sampled.token)) {
    running.result.reason = FinishReason::end_of_generation;
    return true;
  }
  running.result.reason = FinishReason::length;
  return running.result.completion_tokens == running.max_tokens;
}

}  // namespace stemma::testing
