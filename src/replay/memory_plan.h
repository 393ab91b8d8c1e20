#pragma once
// From a model and a budget in bytes to the cache's configuration.

#include <cstdint>
#include <optional>

#include "cache/cache.h"
#include "replay/model_costs.h"
#include "replay/units.h"

namespace stemma::replay {

// What a policy takes recomputing to cost: a token's share of a prefill at constant speed, which
// is what hits and TTFT count here, or its FLOPs, which grow with depth.
enum class CostUnit : std::uint8_t { tokens, flops };

struct CacheSettings {
  double budget_bytes = 0;  // pages, checkpoints and running states together
  StateCodec codec = StateCodec::f32;
  // Of the budget, for states; nullopt: one pool for both, whose split the cache finds. Only
  // `sglang`, which has two pools, then takes a half.
  std::optional<double> state_share;
  int running = 1;  // requests that may run at once: their states are f32
  std::string eviction = "lru";
  CostUnit cost = CostUnit::tokens;
  SnapshotSettings snapshot;  // intervals in tokens
};

// Errors: `replay_bad_setting`: the budget does not hold a page and two states.
Result<CacheConfig> make_cache_config(const ModelCosts& model, const CacheSettings& settings,
                                      UnitSize unit);

}  // namespace stemma::replay
