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

// Running states are f32, whatever checkpoints are, and rows all weigh what a checkpoint does: what
// the states of all that may run weigh more comes out of the budget first, but for a quarter.
double for_rows_and_pages(const ModelCosts& model, const CacheSettings& settings) {
  const double more = model.state(StateCodec::f32) - model.state(settings.codec);
  return std::max(settings.budget_bytes - settings.running * more, settings.budget_bytes / 4);
}

Depth scaled(Depth tokens, UnitSize unit) { return tokens == 0 ? 0 : unit.units(tokens); }

SnapshotSettings in_units(SnapshotSettings settings, UnitSize unit) {
  settings.periodic_interval = scaled(settings.periodic_interval, unit);
  settings.idle_interval = scaled(settings.idle_interval, unit);
  settings.generation_interval = scaled(settings.generation_interval, unit);
  settings.ladder_start = scaled(settings.ladder_start, unit);
  for (Depth& offset : settings.offsets_from_start) offset = scaled(offset, unit);
  for (Depth& offset : settings.offsets_from_end) offset = scaled(offset, unit);
  return settings;
}

// ModelCosts::flops, for units.
CostModel flops_of(const ModelCosts& model, UnitSize unit) {
  const double tokens = unit.tokens;
  return {2 * model.active_parameters * tokens,
          4 * model.attention_layers * model.attention_width * tokens * tokens};
}

}  // namespace

Result<CacheConfig> make_cache_config(const ModelCosts& model, const CacheSettings& settings,
                                      UnitSize unit) {
  const bool has_states = model.state(settings.codec) > 0;
  const bool has_pages = model.kv_bytes > 0;
  const double budget = for_rows_and_pages(model, settings);
  CacheConfig config;
  config.page_size = unit.page_units;
  config.page_bytes =
      static_cast<std::uint64_t>(std::max(1.0, model.kv_bytes * unit.page_tokens()));
  config.row_bytes = static_cast<std::uint64_t>(std::max(1.0, model.state(settings.codec)));
  double page_budget = budget, row_budget = budget;  // at most
  if (has_states && has_pages && settings.state_share) {
    row_budget = budget * *settings.state_share;
    page_budget = budget - row_budget;
  } else {
    config.budget_bytes = static_cast<std::uint64_t>(budget);
  }
  config.page_count = slots(page_budget, model.kv_bytes * unit.page_tokens());
  config.row_count = has_states ? slots(row_budget, model.state(settings.codec)) : 0;
  config.cost = settings.cost == CostUnit::flops ? flops_of(model, unit)
                                                 : CostModel{1.0 * unit.tokens, 0};
  config.eviction = settings.eviction;
  config.snapshot = in_units(settings.snapshot, unit);
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
