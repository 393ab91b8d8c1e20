#include "replay/slot_cache.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "replay/modelled_cache.h"

namespace stemma::replay {

namespace {

class SlotCache : public CacheModel {
 public:
  struct Run : ModelledRun {
    std::size_t slot;
  };

  SlotCache(const PathIndex& index, std::size_t slots, std::int64_t units, bool has_state)
      : index_(index), slots_(slots), capacity_(units), has_state_(has_state) {}

  std::variant<std::unique_ptr<RunningRequest>, WaitReason> acquire(const Demand& demand) override {
    std::vector<NodeIndex> path;
    index_.path(demand.request, path);
    const auto chosen = choose(path, demand.prompt);
    if (!chosen) return WaitReason::no_rows;
    Slot& slot = slots_[*chosen];
    const Depth shared = common(slot.path, path);
    const Depth hit = restorable(slot, std::min(shared, demand.prompt - 1));
    const auto need =
        static_cast<std::int64_t>(path.size()) - static_cast<std::int64_t>(slot.path.size());
    if (!make_room(need, *chosen)) return WaitReason::no_pages;
    count_limit(stats_, demand.prompt, shared, hit);
    if (hit > 0) ++stats_.restored_states;
    used_ += need;
    slot.path = path;
    slot.busy = true;
    slot.ends = {0, 0};
    Run run;
    run.path = std::move(path);
    run.prompt = demand.prompt;
    run.hit = run.computed = hit;
    run.slot = *chosen;
    return std::make_unique<ModelledRequest<SlotCache>>(*this, std::move(run));
  }

  bool fits(Depth units) const override { return units <= capacity_; }

  CacheModelStats stats() const override {
    CacheModelStats stats = stats_;
    stats.cached_units = static_cast<std::uint64_t>(used_);
    return stats;
  }

  void computed(const Run& run, Depth to) {
    if (to == run.prompt) ++stats_.stored_states;
  }

  // What was computed stays in the slot.
  void end(const Run& run) {
    Slot& slot = slots_[run.slot];
    used_ -= static_cast<std::int64_t>(slot.path.size()) - run.computed;
    slot.path.resize(static_cast<std::size_t>(run.computed));
    slot.ends = {run.computed >= run.prompt ? run.prompt : 0, run.computed};
    slot.busy = false;
    slot.last_used = ++clock_;
    ++stats_.stored_states;
  }

 private:
  struct Slot {
    std::vector<NodeIndex> path;
    std::array<Depth, 2> ends{0, 0};  // where it has a state
    bool busy = false;
    std::uint64_t last_used = 0;
  };

  static Depth common(const std::vector<NodeIndex>& a, const std::vector<NodeIndex>& b) {
    const auto limit = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
    return static_cast<Depth>(std::mismatch(a.begin(), a.begin() + limit, b.begin()).first -
                              a.begin());
  }

  Depth restorable(const Slot& slot, Depth limit) const {
    if (!has_state_) return limit;
    Depth deepest = 0;
    for (const Depth end : slot.ends) {
      if (end <= limit) deepest = std::max(deepest, end);
    }
    return deepest;
  }

  std::optional<std::size_t> choose(const std::vector<NodeIndex>& path, Depth prompt) const {
    constexpr double kSimilar = 0.1;
    std::optional<std::size_t> oldest, closest;
    Depth most = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      if (slot.busy) continue;
      if (!oldest || slot.last_used < slots_[*oldest].last_used) oldest = i;
      const Depth shared = common(slot.path, path);
      if (shared > most && shared >= kSimilar * prompt) {
        most = shared;
        closest = i;
      }
    }
    return closest ? closest : oldest;
  }

  // Clears idle slots but the `kept` one until `units` more fit.
  bool make_room(std::int64_t units, std::size_t kept) {
    while (used_ + units > capacity_) {
      Slot* oldest = nullptr;
      for (std::size_t i = 0; i < slots_.size(); ++i) {
        Slot& slot = slots_[i];
        if (i == kept || slot.busy || slot.path.empty()) continue;
        if (!oldest || slot.last_used < oldest->last_used) oldest = &slot;
      }
      if (!oldest) return false;
      used_ -= static_cast<std::int64_t>(oldest->path.size());
      stats_.evicted_pages += oldest->path.size();
      ++stats_.evicted_states;
      oldest->path.clear();
      oldest->ends = {0, 0};
    }
    return true;
  }

  const PathIndex& index_;
  std::vector<Slot> slots_;
  const std::int64_t capacity_;  // units of KV
  const bool has_state_;
  std::int64_t used_ = 0;
  std::uint64_t clock_ = 0;
  CacheModelStats stats_;
};

}  // namespace

Result<std::unique_ptr<CacheModel>> make_slot_cache(const PathIndex& index, const ModelCosts& model,
                                                    const CacheSettings& settings, UnitSize unit) {
  const double states = 2.0 * settings.running * model.state(StateCodec::f32);
  const double units =
      std::floor((settings.budget_bytes - states) / (model.kv_bytes * unit.tokens));
  if (units < 1) {
    return fail(
        ErrorCode::replay_bad_setting,
        {{"reason", "a budget of " + std::to_string(std::llround(settings.budget_bytes / 1e6)) +
                        " MB does not hold the states of " + std::to_string(settings.running) +
                        " slots"}});
  }
  return std::make_unique<SlotCache>(index, static_cast<std::size_t>(settings.running),
                                     static_cast<std::int64_t>(units),
                                     model.state(settings.codec) > 0);
}

}  // namespace stemma::replay
