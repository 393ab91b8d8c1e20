#pragma once
// Runs requests: continuous batching over one model, one device and one prefix cache.
//
// One engine thread schedules, builds steps, runs them and samples. submit(), explain(), cancel(),
// stats() and flush_cache() may be called from any thread and do not wait for a step. Sinks are
// called on the engine thread and must not block.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "compute/device.h"
#include "core/ids.h"
#include "core/result.h"
#include "engine/step_watchdog.h"
#include "memory/memory.h"
#include "models/model.h"
#include "text/sampler.h"
#include "text/tokenizer.h"

namespace stemma {

enum class AdmissionPolicy { arrival, longest_prefix };  // `fcfs`, `lpm` (SGLang's names)

struct EngineConfig {
  int step_tokens = 512;           // token budget of a step (--chunked-prefill-size), >= 1
  int mixed_prefill_tokens = 512;  // of them, the most for prompts while other requests generate (step_pace.h), >= 1
  int max_sequences = 64;          // running at once
  std::size_t max_waiting = 4096;  // requests in the queue before new ones are refused
  Depth context_length = 0;        // longest prompt + output; 0 = the model's, as far as the memory holds it
  Depth max_prompt_tokens = 0;     // longest prompt; 0 = whatever the context holds
  AdmissionPolicy admission = AdmissionPolicy::arrival;
  DType k_type = DType::f16;
  DType v_type = DType::f16;
  std::size_t cache_bytes = std::size_t{1} << 30;  // pages and state rows together
  double state_share = -1;         // of cache_bytes; negative: chosen by rule
  bool prefault = false;           // take all of it from the system at the start
  int page_size = 16;
  std::string eviction = "value";
  SchedulerStrategy strategy = SchedulerStrategy::automatic;
  SnapshotSettings snapshot{};
  int sampling_threads = 1;        // threads that draw a step's tokens, >= 1
  double watchdog_seconds = 300;   // a step that takes longer is reported (step_watchdog.h); 0 = none is
};

struct GenerationRequest {
  std::vector<Token> prompt;         // not empty, all in the vocabulary
  std::vector<Depth> message_ends;   // increasing, inside the prompt
  std::string cache_salt;            // requests with different salts never share
  std::uint8_t priority =
      kDefaultPriority;  // 0 to 100: of what it uses and stores in the cache, when room is needed
  double retention_seconds = 0;  // for so long after its last use; 0: always
  SamplingParams sampling;
  int max_tokens = 16;               // 0: compute the prompt, generate nothing
};

enum class FinishReason { end_of_generation, length, cancelled, error };

struct GenerationTimings {
  double queue_ms = 0;      // submit to first step
  double prompt_ms = 0;     // first step to first token
  double predicted_ms = 0;  // first token to last
};

struct GenerationResult {
  FinishReason reason;
  std::optional<Error> error;  // if reason is `error`
  int prompt_tokens = 0;
  int cached_tokens = 0;       // of the prompt, as first admitted
  int completion_tokens = 0;
  Lookup lookup{};             // as first admitted
  std::array<bool, kWaitReasons>
      waited{};  // by WaitReason: what its first admission was put off for
  std::vector<Depth>
      checkpoints;  // depths at which its state was stored on the way; not where it ended
  GenerationTimings timings;
};

// Where a request's events go: any number of on_token, then one on_finish, in order.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void on_token(const Sampled& token) = 0;
  virtual void on_finish(const GenerationResult& result) = 0;
};

struct EngineStats {
  CacheStats cache;
  std::uint64_t running, waiting;
  std::uint64_t steps, prompt_tokens, cached_tokens, computed_prompt_tokens, generated_tokens;
  std::uint64_t requests_finished, requests_cancelled, requests_failed, preemptions;
  double step_seconds;  // sum
  std::optional<StuckStep> stuck;  // as of now
};

class Engine {
 public:
  // Splits the memory, makes the buffers and starts the thread. Model, device and tokenizer must outlive the engine.
  // Errors: `engine_bad_config`, `memory_budget_too_small`, `out_of_memory`, `cache_*`.
  static Result<std::unique_ptr<Engine>> create(const EngineConfig& config, const Model& model, Device& device,
                                                const Tokenizer& tokenizer);

  // Cancels everything that is left and joins the thread.
  virtual ~Engine() = default;

  // Checks the request and queues it. Prompt and output together are bounded by context_length(): output ends there. After
  // success the sink gets exactly one on_finish. Errors: `request_prompt_empty`, `request_prompt_too_long`,
  // `request_token_out_of_range`, `request_queue_full`, `sampling_*`, `server_shutting_down`.
  virtual Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) = 0;

  // What the cache would reuse of a request's prompt now, and why not more; runs nothing. `done` is
  // called once, on the engine thread between two steps, and must not block; with
  // `server_shutting_down` if the engine ends first. Errors as of submit(); then `done` is not
  // called.
  using OnExplained = std::function<void(Result<Explanation>)>;
  virtual Status explain(GenerationRequest request, OnExplained done) = 0;

  // Ends a request before the next step. Unknown and finished ids are ignored.
  virtual void cancel(RequestId id) = 0;

  // Drops what no running request holds, before the next step.
  virtual void flush_cache() = 0;

  virtual EngineStats stats() const = 0;
  virtual Depth context_length() const = 0;
  virtual const MemorySplit& memory_split() const = 0;
};

}  // namespace stemma
