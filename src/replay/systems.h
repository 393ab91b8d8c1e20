#pragma once
// The systems that a replay compares, by name: the cache under each of its policies, and models of
// other caches.

#include <string>
#include <vector>

#include "replay/cache_model.h"
#include "replay/future.h"
#include "replay/memory_plan.h"

namespace stemma::replay {

// What a system may need to know. Outlives it.
struct SystemInput {
  const Trace& trace;
  const ModelCosts& model;
  UnitSize unit;
  CacheSettings settings;            // but for the eviction policy
  const PathIndex* index = nullptr;  // for systems that need_index()
  const Future* future = nullptr;    // for systems that need_future()
};

bool needs_index(const std::string& system);
bool needs_future(const std::string& system);

// Names are `infinite`; `offline` (replay/offline_cache.h); `llama-server`, `vllm` and `sglang`
// (slot_cache.h, block_cache.h, track_cache.h); or an eviction policy of the cache. A policy's name
// and "@ends" stores states at branch points and ends of sequences only, as Marconi does; with
// "@flops" the policy saves FLOPs instead of tokens, as `marconi` always does. Errors:
// `replay_bad_setting`, `cache_unknown_policy`.
Result<std::unique_ptr<CacheModel>> make_system(const std::string& name, const SystemInput& input);

// The cache with room for all units of a trace, and no states: as if there were one at every depth.
Result<std::unique_ptr<CacheModel>> make_unlimited(const Trace& trace, UnitSize unit);

}  // namespace stemma::replay
