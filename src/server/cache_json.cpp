#include "server/cache_json.h"

#include "engine/reuse_advice.h"

namespace stemma {

using nlohmann::ordered_json;

namespace {

// What a lookup found, and why not more: the same fields in both answers.
void add_lookup(ordered_json& json, const Lookup& lookup) {
  json["matched"] = lookup.matched;
  json["usable"] = lookup.usable;
  json["reason"] = name_of(lookup.limit);
  json["advice"] = advice_on(lookup.limit);
}

}  // namespace

ordered_json cache_report_json(const GenerationResult& result) {
  ordered_json report = {{"prompt_tokens", result.prompt_tokens}};
  add_lookup(report, result.lookup);
  report["reused"] = result.cached_tokens;
  ordered_json& waits = report["waited_for"] = ordered_json::array();
  for (int i = 0; i < kWaitReasons; ++i) {
    const auto reason = static_cast<WaitReason>(i);
    if (!result.waited[static_cast<std::size_t>(i)]) continue;
    waits.push_back({{"reason", name_of(reason)}, {"advice", advice_on(reason)}});
  }
  report["checkpoints_taken"] = result.checkpoints;
  return report;
}

ordered_json explanation_json(const Explanation& explanation) {
  ordered_json json = {{"object", "cache.explanation"}, {"prompt_tokens", explanation.length}};
  add_lookup(json, explanation.lookup);
  json["checkpoints"] = explanation.checkpoints;
  json["forks"] = explanation.forks;
  const Depth evicted = explanation.evicted_checkpoint;
  json["evicted_checkpoint"] = evicted > 0 ? ordered_json(evicted) : ordered_json();
  json["other_namespace_matched"] = explanation.other_namespace_matched;
  json["in_flight"] = explanation.in_flight;
  ordered_json& planned = json["planned_checkpoints"] = ordered_json::array();
  for (const PlannedMark& mark : explanation.planned) {
    planned.push_back({{"depth", mark.depth}, {"source", name_of(mark.source)}});
  }
  return json;
}

}  // namespace stemma
