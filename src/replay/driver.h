#pragma once
// Runs a trace through a cache in virtual time: requests arrive, wait, compute their prompts in
// chunks, answer, and the next request of their chain follows. Everything but the cache's own time
// is deterministic.
//
// The machine: one prompt chunk is computed at a time, prompts in the order of admission; answers
// are decoded beside it, each at its own pace. Leases are held from admission to the end of the
// answer. A request that has to wait is tried again when a chunk is computed (if it waits for a
// prefix that is being computed) or when a request ends.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/cache_model.h"
#include "replay/model_costs.h"
#include "replay/trace.h"
#include "replay/units.h"

namespace stemma::replay {

// How fast the machine is.
struct ServiceProfile {
  std::string name;
  double prefill;  // tokens/s, whatever the depth
  double decode;   // tokens/s of one sequence
};

// "gpu", "cpu", "marconi", or "PREFILL:DECODE" in tokens/s. Errors: `replay_bad_setting`.
Result<ServiceProfile> find_service_profile(std::string_view name);

struct DriverConfig {
  UnitSize unit{1, 16};
  ServiceProfile profile{"gpu", 80000, 100};
  int concurrency = 32;  // sessions at once (traces with think times); requests that run at once
  Depth chunk_tokens = 2048;  // of a prompt that one step computes
  // Sessions start in the trace's order, or, if set, in one that this seed draws: each takes
  // another's start; gaps within sessions stay.
  std::optional<std::uint64_t> shuffle;
};

struct Quantiles {
  double p50 = 0, p90 = 0, p99 = 0;
};

struct ReplayResult {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t answer_tokens = 0;
  double prompt_flops = 0;  // if nothing were reused
  double saved_flops = 0;
  Quantiles ttft;      // s, from arrival to the end of the prompt: queue and prefill
  Quantiles decision;  // s of real time that acquire took, waits included
  std::uint64_t waits_in_flight = 0;
  std::uint64_t waits_memory = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t refused = 0;  // requests that can never fit; their prompts count as computed
  double virtual_seconds = 0;
  double prefill_busy = 0;  // share of the virtual time
  double real_seconds = 0;
  CacheModelStats cache;

  double hit_share() const {
    return prompt_tokens == 0
               ? 0
               : static_cast<double>(hit_tokens) / static_cast<double>(prompt_tokens);
  }
};

// O(events log events) besides the cache's own work.
ReplayResult replay(const Trace& trace, const DriverConfig& config, const ModelCosts& model,
                    CacheModel& cache);

}  // namespace stemma::replay
