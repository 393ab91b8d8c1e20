#include "replay/report_json.h"

#include <nlohmann/json.hpp>

namespace stemma::replay {

using nlohmann::json;

namespace {

json quantiles_json(const Quantiles& q, double scale) {
  return {{"p50", scale * q.p50}, {"p90", scale * q.p90}, {"p99", scale * q.p99}};
}

json order_json(const ReplayResult& r) {
  const CacheModelStats& c = r.cache;
  json limits;
  for (int i = 0; i < kReuseLimits; ++i) {
    limits[std::string(name_of(static_cast<ReuseLimit>(i)))] =
        c.limits[static_cast<std::size_t>(i)];
  }
  return {
      {"requests", r.requests},
      {"prompt_tokens", r.prompt_tokens},
      {"hit_tokens", r.hit_tokens},
      {"hit_share", r.hit_share()},
      {"prompt_flops", r.prompt_flops},
      {"saved_flops", r.saved_flops},
      {"ttft_ms", quantiles_json(r.ttft, 1e3)},
      {"decision_us", quantiles_json(r.decision, 1e6)},
      {"waits_in_flight", r.waits_in_flight},
      {"waits_memory", r.waits_memory},
      {"preemptions", r.preemptions},
      {"refused", r.refused},
      {"virtual_seconds", r.virtual_seconds},
      {"prefill_busy", r.prefill_busy},
      {"real_seconds", r.real_seconds},
      {"restored_states", c.restored_states},
      {"copied_pages", c.copied_pages},
      {"stored_states", c.stored_states},
      {"skipped_marks", c.skipped_marks},
      {"evicted_pages", c.evicted_pages},
      {"evicted_states", c.evicted_states},
      {"limits", std::move(limits)},
      {"cached_units", c.cached_units},
      {"nodes", c.nodes},
      {"checkpoints", c.checkpoints},
      {"metadata_bytes", c.metadata_bytes},
  };
}

json spread_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"sd", spread.sd}, {"standard_error", spread.standard_error}};
}

json system_json(const SystemResult& system, const SystemResult* lru) {
  json result{{"system", system.system}, {"hit_share", spread_json(spread(hit_shares(system)))}};
  if (lru && lru != &system) {
    const PairedDifference paired = paired_hits(system, *lru);
    result["against_lru"] = spread_json(paired.difference);
    result["against_lru"]["wins"] = paired.wins;
    result["against_lru"]["losses"] = paired.losses;
  }
  for (const ReplayResult& order : system.orders) result["orders"].push_back(order_json(order));
  return result;
}

}  // namespace

json report_json(const SweepResult& sweep) {
  const SweepConfig& config = sweep.config;
  json result{
      {"trace",
       {{"name", sweep.trace},
        {"format", sweep.trace_format},
        {"note", sweep.note},
        {"sessions", sweep.sessions},
        {"requests", sweep.requests}}},
      {"model",
       {{"name", sweep.model.name},
        {"kv_bytes", sweep.model.kv_bytes},
        {"state_bytes", sweep.model.state(config.cache.codec)},
        {"codec", kStateCodecNames[static_cast<std::size_t>(config.cache.codec)]},
        {"active_parameters", sweep.model.active_parameters},
        {"basis", sweep.model.basis}}},
      {"settings",
       {{"unit_tokens", sweep.unit.tokens},
        {"page_tokens", sweep.unit.page_tokens()},
        {"orders", config.orders},
        {"seed", config.load.seed},
        {"concurrency", config.load.concurrency},
        {"chunk_tokens", config.load.chunk_tokens},
        {"state_share",
         config.cache.state_share ? json(*config.cache.state_share) : json("shared")},
        {"profile",
         {{"name", config.load.profile.name},
          {"prefill_tokens_per_second", config.load.profile.prefill},
          {"decode_tokens_per_second", config.load.profile.decode}}}}},
      {"infinite", system_json(sweep.infinite, nullptr)},
      {"budgets", json::array()},
  };
  for (const BudgetResult& budget : sweep.budgets) {
    json row{{"bytes", budget.budget_bytes}, {"systems", json::array()}};
    const SystemResult* lru = find_system(budget, "lru");
    for (const SystemResult& system : budget.systems)
      row["systems"].push_back(system_json(system, lru));
    result["budgets"].push_back(std::move(row));
  }
  return result;
}

}  // namespace stemma::replay
