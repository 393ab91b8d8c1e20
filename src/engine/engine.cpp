// The engine thread: mail -> admission -> plan -> step -> sampling, over and over.
//
// All state but the mailbox and the published statistics belongs to that thread. A step in detail:
//   1. collect mail: cancelled sequences leave, new ones queue;
//   2. admit waiting sequences: the cache gives leases, memory makes their copies;
//   3. plan chunks, build the step, run it on the device;
//   4. publish what prompts computed, sample for those whose tokens are all computed, tell the sinks.

#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>

#include "engine/batch_sampler.h"
#include "engine/mailbox.h"
#include "engine/reuse_advice.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_builder.h"

namespace stemma {

namespace {

double milliseconds(Clock::duration span) {
  return std::chrono::duration<double, std::milli>(span).count();
}

// Counters of EngineStats that the engine thread keeps.
struct Counters {
  std::uint64_t steps = 0, prompt_tokens = 0, cached_tokens = 0, computed_prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t finished = 0, cancelled = 0, failed = 0;
  double step_seconds = 0;
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(const EngineConfig& config, const Model& model, Device& device, const Tokenizer& tokenizer,
             const MemorySplit& split, Depth context_length, std::unique_ptr<Memory> memory,
             std::unique_ptr<Cache> cache)
      : model_(model),
        device_(device),
        tokenizer_(tokenizer),
        split_(split),
        context_length_(context_length),
        max_prompt_(config.max_prompt_tokens > 0 ? static_cast<std::size_t>(config.max_prompt_tokens)
                                                 : std::numeric_limits<std::size_t>::max()),
        max_waiting_(config.max_waiting),
        memory_(std::move(memory)),
        cache_(std::move(cache)),
        scheduler_({config.step_tokens, config.mixed_prefill_tokens, config.max_sequences, config.admission},
                   *cache_),
        batch_sampler_(config.sampling_threads),
        watchdog_(config.watchdog_seconds),
        stats_(current_stats()),
        thread_([this] { loop(); }) {}

  ~EngineImpl() override {
    mailbox_.post([](Mailbox::Mail& mail) { mail.stop = true; });
    thread_.join();
  }

  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override {
    STEMMA_CHECK(check(request));
    STEMMA_TRY(auto sampler, Sampler::create(request.sampling, tokenizer_));
    sampler->accept_prompt(request.prompt);

    auto sequence = std::make_unique<Sequence>();
    sequence->tokens = std::move(request.prompt);
    sequence->message_ends = std::move(request.message_ends);
    sequence->priority = request.priority;
    sequence->retention_seconds = request.retention_seconds;
    sequence->max_tokens = request.max_tokens;
    sequence->sampler = std::move(sampler);
    sequence->sink = std::move(sink);
    sequence->submitted = Clock::now();
    sequence->result.prompt_tokens = static_cast<int>(sequence->tokens.size());
    sequence->namespace_key = namespace_key(request);

    return mailbox_.post([&](Mailbox::Mail& mail) -> Result<RequestId> {
      if (mail.stop) return fail(ErrorCode::server_shutting_down);
      const std::size_t waiting = mail.submitted.size() + queued_.load();
      if (waiting >= max_waiting_) {
        return fail(ErrorCode::request_queue_full, {{"waiting", std::to_string(waiting)}});
      }
      const RequestId id{++last_id_};
      sequence->id = id;
      mail.submitted.push_back(std::move(sequence));
      return id;
    });
  }

  Status explain(GenerationRequest request, OnExplained done) override {
    STEMMA_CHECK(check(request));
    Question question{namespace_key(request), std::move(request), std::move(done)};
    return mailbox_.post([&](Mailbox::Mail& mail) -> Status {
      if (mail.stop) return fail(ErrorCode::server_shutting_down);
      mail.questions.push_back(std::move(question));
      return {};
    });
  }

  void cancel(RequestId id) override {
    mailbox_.post([id](Mailbox::Mail& mail) { mail.cancelled.push_back(id); });
  }

  void flush_cache() override {
    mailbox_.post([](Mailbox::Mail& mail) { mail.flush = true; });
  }

  EngineStats stats() const override {
    EngineStats stats = [this] {
      const std::scoped_lock lock(stats_mutex_);
      return stats_;
    }();
    stats.stuck = watchdog_.stuck();  // the engine thread, which publishes the rest, may hang
    return stats;
  }

  Depth context_length() const override { return context_length_; }
  const MemorySplit& memory_split() const override { return split_; }

 private:
  // What requests must have in common to share: the model, later also an adapter, whose fingerprint
  // goes behind the model's (both are of fixed length), and the salt. Thread-safe.
  std::string namespace_key(const GenerationRequest& request) const {
    return model_.info().fingerprint + '\0' + request.cache_salt;
  }

  // What submit() refuses. Thread-safe: reads only what never changes.
  Status check(const GenerationRequest& request) const {
    if (request.prompt.empty()) return fail(ErrorCode::request_prompt_empty);
    const auto context = static_cast<std::size_t>(context_length_) - (request.max_tokens > 0 ? 1 : 0);
    const std::size_t room = std::min(context, max_prompt_);
    if (request.prompt.size() > room) {
      return fail(ErrorCode::request_prompt_too_long,
                  {{"tokens", std::to_string(request.prompt.size())}, {"limit", std::to_string(room)}});
    }
    const std::int64_t vocabulary = model_.info().vocabulary;
    for (std::size_t i = 0; i < request.prompt.size(); ++i) {
      const Token token = request.prompt[i];
      if (token < 0 || token >= vocabulary) {
        return fail(ErrorCode::request_token_out_of_range, {{"token", std::to_string(token)},
                                                            {"position", std::to_string(i)},
                                                            {"size", std::to_string(vocabulary)}});
      }
    }
    return {};
  }

  void loop() {
    for (;;) {
      const bool idle = scheduler_.running().empty() && scheduler_.waiting().empty();
      Mailbox::Mail mail = mailbox_.collect(idle);
      for (auto& sequence : mail.submitted) {
        sequence->ns = cache_->namespace_for(sequence->namespace_key);
        scheduler_.enqueue(std::move(sequence));
      }
      for (const RequestId id : mail.cancelled) end(id, FinishReason::cancelled);
      for (const Question& question : mail.questions) {
        if (mail.stop)
          question.done(fail(ErrorCode::server_shutting_down));
        else
          question.done(answer(question));
      }
      if (mail.stop) break;
      if (mail.flush || std::exchange(flush_due_, false)) cache_->flush();
      const std::vector<Sequence*> admitted = scheduler_.admit();
      memory_->release(cache_->take_cooled());
      for (Sequence* sequence : admitted) start(*sequence);
      step();
      publish_stats();
    }
    while (!scheduler_.waiting().empty()) end(scheduler_.waiting().front()->id, FinishReason::cancelled);
    while (!scheduler_.running().empty()) end(scheduler_.running().front()->id, FinishReason::cancelled);
    publish_stats();
  }

  Explanation answer(const Question& question) {
    const GenerationRequest& request = question.request;
    return cache_->explain({.ns = cache_->namespace_for(question.namespace_key),
                            .tokens = request.prompt,
                            .message_ends = request.message_ends,
                            .priority = request.priority,
                            .retention_seconds = request.retention_seconds,
                            .now_seconds = cache_seconds()});
  }

  // A sequence has its lease: makes the lease's copies, and keeps what it reused the first time for its answer.
  void start(Sequence& sequence) {
    memory_->restore(*sequence.lease);
    if (sequence.started) return;
    sequence.started = true;
    sequence.first_step = Clock::now();
    sequence.result.lookup = sequence.lease->lookup();
    sequence.result.cached_tokens = sequence.lease->hit();
    counters_.prompt_tokens += static_cast<std::uint64_t>(sequence.result.prompt_tokens);
    counters_.cached_tokens += static_cast<std::uint64_t>(sequence.result.cached_tokens);
    const Lookup& found = sequence.result.lookup;
    spdlog::debug("request {}: of {} prompt tokens {} are known and {} reused: {}: {}",
                  index_of(sequence.id), sequence.result.prompt_tokens, found.matched,
                  sequence.result.cached_tokens, name_of(found.limit), advice_on(found.limit));
  }

  void step() {
    const std::vector<Chunk> chunks = scheduler_.plan();
    if (chunks.empty()) return;
    const auto begin = Clock::now();
    const Step& step = builder_.build(chunks);
    const StepWatchdog::Watch watch(
        watchdog_, {.number = counters_.steps + 1, .sequences = chunks.size(), .tokens = step.token_count()});
    memory_->release(cache_->take_cooled());
    const auto vocabulary = static_cast<std::size_t>(model_.info().vocabulary);
    logits_.resize(step.output_count() * vocabulary);
    device_.run(step, {model_.weights(), memory_->pages(), memory_->states()},
                [this](Ops& ops) { return model_.forward(ops); }, logits_);
    ++counters_.steps;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    counters_.step_seconds += seconds;
    scheduler_.took(seconds);

    // Everything computed goes into the tree before anything ends: an end may evict.
    std::vector<bool> sampled(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Segment& segment = step.segments[i];
      sampled[i] = builder_.has_output(i);
      const bool in_prompt = chunks[i].sequence->result.completion_tokens == 0;
      if (in_prompt) counters_.computed_prompt_tokens += segment.tokens.size();
      for (const Mark& mark : segment.marks)
        chunks[i].sequence->result.checkpoints.push_back(mark.depth);
      if (in_prompt || segment.tokens.size() > 1 || !segment.marks.empty()) {
        chunks[i].sequence->lease->publish(chunks[i].to);
      } else {
        chunks[i].sequence->lease->advance(chunks[i].to);
      }
    }

    draws_.clear();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (!sampled[i]) continue;
      const auto row = std::span<const float>(logits_).subspan(draws_.size() * vocabulary, vocabulary);
      draws_.push_back({chunks[i].sequence->sampler.get(), row});
    }
    batch_sampler_.draw(draws_);

    auto next = draws_.begin();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      Sequence& sequence = *chunks[i].sequence;
      if (sampled[i]) {
        accept(sequence, (next++)->sampled);
      } else if (sequence.remaining() == 0) {
        end(sequence.id, FinishReason::length);  // wanted no output
      }
    }
  }

  // Takes what was drawn for a sequence.
  void accept(Sequence& sequence, const std::optional<Sampled>& drawn) {
    if (!drawn) {
      sequence.result.error = make_error(ErrorCode::model_not_a_number, {{"model", model_.info().name}});
      flush_due_ = true;  // what led here is in the cache
      return end(sequence.id, FinishReason::error);
    }
    if (sequence.result.completion_tokens++ == 0) sequence.first_token = Clock::now();
    ++counters_.generated_tokens;
    sequence.sink->on_token(*drawn);
    sequence.lease->append(drawn->token);
    if (tokenizer_.is_end_of_generation(drawn->token)) {
      end(sequence.id, FinishReason::end_of_generation);
    } else if (sequence.result.completion_tokens >= sequence.max_tokens ||
               static_cast<Depth>(sequence.lease->tokens().size()) >= context_length_) {
      end(sequence.id, FinishReason::length);
    }
  }

  // Takes a sequence out and tells its sink. What it computed stays in the cache, unless it failed.
  void end(RequestId id, FinishReason reason) {
    const std::unique_ptr<Sequence> sequence = scheduler_.remove(id);
    if (!sequence) return;
    if (sequence->lease && reason != FinishReason::error) std::move(*sequence->lease).finish();
    sequence->lease.reset();
    const auto now = Clock::now();
    GenerationResult& result = sequence->result;
    result.reason = reason;
    const bool spoke = result.completion_tokens > 0;
    result.timings.queue_ms = milliseconds((sequence->started ? sequence->first_step : now) - sequence->submitted);
    result.timings.prompt_ms =
        sequence->started ? milliseconds((spoke ? sequence->first_token : now) - sequence->first_step) : 0;
    result.timings.predicted_ms = spoke ? milliseconds(now - sequence->first_token) : 0;
    ++(reason == FinishReason::cancelled ? counters_.cancelled
       : reason == FinishReason::error   ? counters_.failed
                                         : counters_.finished);
    publish_stats();  // so that who hears of the end sees it in the statistics
    sequence->sink->on_finish(result);
  }

  EngineStats current_stats() const {
    return {
        .cache = cache_->stats(),
        .running = scheduler_.running().size(),
        .waiting = scheduler_.waiting().size(),
        .steps = counters_.steps,
        .prompt_tokens = counters_.prompt_tokens,
        .cached_tokens = counters_.cached_tokens,
        .computed_prompt_tokens = counters_.computed_prompt_tokens,
        .generated_tokens = counters_.generated_tokens,
        .requests_finished = counters_.finished,
        .requests_cancelled = counters_.cancelled,
        .requests_failed = counters_.failed,
        .preemptions = scheduler_.preemptions(),
        .step_seconds = counters_.step_seconds,
        .stuck = {},
    };
  }

  void publish_stats() {
    const EngineStats now = current_stats();
    const std::scoped_lock lock(stats_mutex_);
    stats_ = now;
    queued_ = scheduler_.waiting().size();
  }

  const Model& model_;
  Device& device_;
  const Tokenizer& tokenizer_;
  const MemorySplit split_;
  const Depth context_length_;
  const std::size_t max_prompt_;
  const std::size_t max_waiting_;

  Mailbox mailbox_;
  std::uint64_t last_id_ = 0;                   // guarded by the mailbox
  std::atomic<std::size_t> queued_ = 0;         // in the scheduler's queue, as of the last step

  // The engine thread's own.
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Cache> cache_;
  Scheduler scheduler_;
  StepBuilder builder_;
  std::vector<float> logits_;
  std::vector<Draw> draws_;
  BatchSampler batch_sampler_;
  Counters counters_;
  bool flush_due_ = false;

  StepWatchdog watchdog_;
  mutable std::mutex stats_mutex_;
  EngineStats stats_;

  std::thread thread_;  // last: starts when all else is there
};

// The split for the longest context that fits, at most `longest`. Halves until it does.
Result<std::pair<MemorySplit, Depth>> split_for_longest(MemoryBudget budget, Depth longest, const KvLayout& kv,
                                                        const StateLayout& state) {
  constexpr Depth kShortest = 256;
  for (budget.context_length = longest;; budget.context_length /= 2) {
    auto split = split_memory(budget, kv, state);
    if (split) return std::pair(*std::move(split), budget.context_length);
    if (budget.context_length / 2 < kShortest) return tl::unexpected<Error>(std::move(split).error());
  }
}

Status check_config(const EngineConfig& config) {
  const auto bad = [](const char* reason) { return fail(ErrorCode::engine_bad_config, {{"reason", reason}}); };
  if (config.step_tokens < 1) return bad("a step needs room for at least one token");
  if (config.mixed_prefill_tokens < 1) return bad("prompts need at least one token of a mixed step");
  if (config.max_sequences < 1) return bad("at least one sequence must be able to run");
  if (config.sampling_threads < 1) return bad("at least one thread must draw tokens");
  if (config.context_length < 0) return bad("a context cannot be negative");
  if (config.max_prompt_tokens < 0) return bad("a prompt cannot have a negative length");
  if (!(config.watchdog_seconds >= 0)) return bad("the watchdog needs a number of seconds, or 0");
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineConfig& config, const Model& model, Device& device,
                                               const Tokenizer& tokenizer) {
  STEMMA_CHECK(check_config(config));
  const KvLayout kv = model.kv_layout(config.k_type, config.v_type, config.page_size);
  const StateLayout state = model.state_layout();

  MemoryBudget budget{.bytes = config.cache_bytes,
                      .max_sequences = static_cast<std::uint32_t>(config.max_sequences),
                      .context_length = config.context_length,
                      .state_share = config.state_share,
                      .release_granularity = device.release_granularity(),
                      .prefault = config.prefault};
  MemorySplit split;
  Depth context = config.context_length;
  if (context > 0) {
    STEMMA_TRY(split, split_memory(budget, kv, state));
  } else {
    STEMMA_TRY(auto longest, split_for_longest(budget, model.info().context_length, kv, state));
    std::tie(split, context) = std::move(longest);
  }

  STEMMA_TRY(auto memory, Memory::create(device, kv, state, split));
  STEMMA_TRY(auto cache,
             Cache::create({.page_size = config.page_size,
                            .page_count = split.page_count,
                            .row_count = split.row_count,
                            .page_bytes = split.page_bytes,
                            .row_bytes = split.row_bytes,
                            .budget_bytes = split.shared_bytes,
                            .warm_pages = split.warm_pages,
                            .warm_rows = split.warm_rows,
                            .cost = {.per_token = model.info().flops_per_token,
                                     .per_token_and_depth = model.info().flops_per_token_and_depth},
                            .eviction = config.eviction,
                            .strategy = config.strategy,
                            .snapshot = config.snapshot}));
  return std::make_unique<EngineImpl>(config, model, device, tokenizer, split, context, std::move(memory),
                                      std::move(cache));
}

}  // namespace stemma
