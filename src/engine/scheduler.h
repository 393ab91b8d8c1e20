#pragma once
// Who runs: the queue, the running sequences and how a step's token budget is shared out.
//
// Rules:
//  * Generating sequences come first: each gets its token in every step, in turn if the budget has not room for all.
//  * Prompts get what is left, at least an eighth of the budget; while others generate, at most `mixed_prefill_tokens` and as
//    many as keep the step's time near that of one without (step_pace.h). The oldest prompt gets half of it; the other half goes to the shortest remainders first, so that short prompts
//    pass long ones and none starves.
//  * Admission follows the policy's order. A prompt whose prefix is being computed by another waits and lets others pass; one for
//    which there is no room lets nobody pass.
//  * When pages run out, the youngest running sequence is preempted: what it computed stays in the cache, and it
//    goes back to its place in the queue. The oldest always makes progress.
//
// Threads: the engine's. Costs: admission is linear in the waiting prompts, a plan in the running sequences.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/cache.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "engine/step_pace.h"

namespace stemma {

struct SchedulerConfig {
  int step_tokens;
  int mixed_prefill_tokens;
  int max_sequences;
  AdmissionPolicy admission;
};

// A sequence's part of the coming step: tokens [computed, to).
struct Chunk {
  Sequence* sequence;
  Depth to;
};

// Shares `budget` tokens out among prompts with `remaining` tokens each, oldest first. Returns the shares in the same order.
// O(n log n).
std::vector<Depth> share_prefill_budget(std::vector<Depth> remaining, Depth budget);

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, Cache& cache) : config_(config), cache_(cache) {}

  // Puts a sequence at its place in the queue.
  void enqueue(std::unique_ptr<Sequence> sequence);

  // Gives leases to waiting sequences while there is room; those that now run and must be restored.
  std::vector<Sequence*> admit();

  // The coming step, oldest sequence first. Pages are reserved; sequences that stood in the way are preempted. Empty only if
  // nothing runs.
  std::vector<Chunk> plan();

  // How long the step took that plan() returned last.
  void took(double seconds) { pace_.took(planned_generating_, planned_prompt_tokens_, seconds); }

  // Takes a sequence out, wherever it is. Null if the id is unknown. O(sequences).
  std::unique_ptr<Sequence> remove(RequestId id);

  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  const std::vector<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  std::vector<std::size_t> admission_order() const;
  void preempt(std::size_t index);
  bool reserve_or_preempt(Sequence& sequence);

  SchedulerConfig config_;
  Cache& cache_;
  std::vector<std::unique_ptr<Sequence>> waiting_;  // by id
  std::vector<std::unique_ptr<Sequence>> running_;  // by id
  std::uint64_t turn_ = 0;                          // where the round of generating sequences goes on
  std::uint64_t preemptions_ = 0;
  StepPace pace_;
  std::size_t planned_generating_ = 0;
  std::size_t planned_prompt_tokens_ = 0;
};

}  // namespace stemma
