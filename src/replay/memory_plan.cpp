#include "replay/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stemma::replay {

namespace {

std::uint32_t slots(double bytes, double slot_bytes) {
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max() - 1.0;
  return slot_bytes <= 0 || bytes <= 0
             ? 0
             : static_cast<std::uint32_t>(std::min(bytes / slot_bytes, kMost));
}

// Running states are f32, whatever checkpoints are; rows are all alike. So each of the rows that
// may run takes an f32 state's bytes out of the share, and the checkpoints have the rest.
std::uint32_t rows(const ModelCosts& model, const CacheSettings& settings, double bytes) {
  const double running = settings.running * model.state(StateCodec::f32);
  if (bytes <= running) return slots(bytes, model.state(StateCodec::f32));
  return static_cast<std::uint32_t>(settings.running) +
         slots(bytes - running, model.state(settings.codec));
}

}  // namespace

Result<CacheConfig> make_cache_config(const ModelCosts& model, const CacheSettings& settings,
                                      UnitSize unit) {
  const bool has_states = model.state(settings.codec) > 0;
  const bool has_pages = model.kv_bytes > 0;
  const double state_bytes = !has_states ? 0
                             : has_pages ? settings.budget_bytes * settings.state_share
                                         : settings.budget_bytes;
  CacheConfig config;
  config.page_size = unit.page_units;
  config.page_count =
      slots(settings.budget_bytes - state_bytes, model.kv_bytes * unit.page_tokens());
  config.row_count = has_states ? rows(model, settings, state_bytes) : 0;
  config.eviction = settings.eviction;
  config.snapshot = settings.snapshot;
  const auto interval = [&](Depth tokens) { return tokens == 0 ? 0 : unit.units(tokens); };
  config.snapshot.periodic_interval = interval(settings.snapshot.periodic_interval);
  config.snapshot.idle_interval = interval(settings.snapshot.idle_interval);
  config.wait_threshold = unit.units(config.wait_threshold);
  if ((has_pages && config.page_count == 0) || (has_states && config.row_count < 2)) {
    return fail(
        ErrorCode::replay_bad_setting,
        {{"reason", "a budget of " + std::to_string(std::llround(settings.budget_bytes / 1e6)) +
                        " MB does not hold a page of KV and two states of " + model.name}});
  }
  return config;
}

}  // namespace stemma::replay
