#include "replay/systems.h"

#include <algorithm>
#include <limits>

#include "replay/block_cache.h"
#include "replay/offline_cache.h"
#include "replay/real_cache.h"
#include "replay/slot_cache.h"
#include "replay/track_cache.h"

namespace stemma::replay {

namespace {

// Marconi's admission.
SnapshotSettings branches_and_ends() {
  SnapshotSettings settings;
  settings.periodic_interval = settings.idle_interval = 0;
  settings.generation_interval = settings.ladder_start = 0;
  settings.repeat_snapshot = settings.message_snapshot = false;
  return settings;
}

// More pages, or states, than a trace can fill.
std::uint32_t most_slots(const Trace& trace, UnitSize unit) {
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max() - 1.0;
  const double ratio = static_cast<double>(trace.block_tokens) / unit.tokens;
  // Every request may leave a page of its own partly filled, and runs on one more.
  const double pages = trace.block_count * ratio / unit.page_units +
                       3.0 * static_cast<double>(trace.requests.size());
  return static_cast<std::uint32_t>(std::min(2 * pages + 4096, kMost));
}

}  // namespace

bool needs_future(const std::string& system) { return system == "offline"; }
bool needs_index(const std::string& system) {
  return needs_future(system) || system == "llama-server" || system == "vllm" || system == "sglang";
}

Result<std::unique_ptr<CacheModel>> make_unlimited(const Trace& trace, UnitSize unit) {
  CacheConfig config;
  config.eviction = "lru";  // which is never asked
  config.page_size = unit.page_units;
  config.page_count = most_slots(trace, unit);
  config.row_count = 0;
  config.wait_threshold = unit.units(config.wait_threshold);
  return make_real_cache(config);
}

Result<std::unique_ptr<CacheModel>> make_system(const std::string& name, const SystemInput& input) {
  if (name == "infinite") return make_unlimited(input.trace, input.unit);
  if (name == "offline") {
    return make_offline_cache(*input.index, *input.future, input.model, input.settings, input.unit);
  }
  if (name == "llama-server")
    return make_slot_cache(*input.index, input.model, input.settings, input.unit);
  if (name == "vllm")
    return make_block_cache(*input.index, input.model, input.settings, input.unit);
  if (name == "sglang")
    return make_track_cache(*input.index, input.model, input.settings, input.unit);
  CacheSettings settings = input.settings;
  std::size_t at = name.find('@');
  settings.eviction = name.substr(0, at);
  // Its score is defined over FLOPs.
  if (settings.eviction.starts_with("marconi")) settings.cost = CostUnit::flops;
  while (at != std::string::npos) {
    const std::size_t next = name.find('@', at + 1);
    const std::string how = name.substr(at + 1, next - at - 1);
    if (how == "ends") {
      settings.snapshot = branches_and_ends();
    } else if (how == "flops") {
      settings.cost = CostUnit::flops;
    } else {
      return fail(ErrorCode::replay_bad_setting,
                  {{"reason", "after @ stands how states are stored (\"ends\") or what the policy "
                              "saves (\"flops\"), not \"" +
                                  how + "\""}});
    }
    at = next;
  }
  STEMMA_TRY(CacheConfig config, make_cache_config(input.model, settings, input.unit));
  config.page_count = std::min(config.page_count, most_slots(input.trace, input.unit));
  config.row_count = std::min(config.row_count, most_slots(input.trace, input.unit));
  return make_real_cache(config);
}

}  // namespace stemma::replay
