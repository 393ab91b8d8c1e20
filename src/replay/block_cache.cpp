#include "replay/block_cache.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <unordered_map>

#include "replay/modelled_cache.h"

namespace stemma::replay {

namespace {

class BlockCache : public CacheModel {
 public:
  struct Run : ModelledRun {
    std::int64_t own_pages;           // taken, not (yet) shared
    std::vector<std::uint64_t> held;  // keys of shared pages, in order of depth
  };

  BlockCache(const PathIndex& index, Depth block, std::int64_t pages, bool has_state)
      : index_(index), block_(block), free_(pages), pages_(pages), has_state_(has_state) {}

  std::variant<std::unique_ptr<RunningRequest>, WaitReason> acquire(const Demand& demand) override {
    Run run;
    index_.path(demand.request, run.path);
    run.prompt = demand.prompt;
    const Depth most = (demand.prompt - 1) / block_;
    Depth matched = 0;
    Depth blocks = 0;
    while (matched < most && cached_.contains(kv_key(run.path, matched))) {
      ++matched;
      if (!has_state_ || cached_.contains(state_key(run.path, matched - 1))) blocks = matched;
    }
    run.hit = run.computed = blocks * block_;

    for (Depth b = 0; b < blocks; ++b) hold(run, kv_key(run.path, b));
    if (has_state_ && blocks > 0) hold(run, state_key(run.path, blocks - 1));
    run.own_pages = pages_for(static_cast<Depth>(run.path.size()), blocks);
    if (run.own_pages > free_ + static_cast<std::int64_t>(idle_.size())) {
      release(run);
      return WaitReason::no_pages;
    }
    while (free_ < run.own_pages) evict();
    free_ -= run.own_pages;
    count_limit(stats_, demand.prompt, matched * block_, run.hit);
    if (run.hit > 0) ++stats_.restored_states;
    return std::make_unique<ModelledRequest<BlockCache>>(*this, std::move(run));
  }

  bool fits(Depth units) const override { return pages_for(units, 0) <= pages_; }

  CacheModelStats stats() const override {
    CacheModelStats stats = stats_;
    stats.nodes = cached_.size();
    return stats;
  }

  // Full blocks become shared.
  void computed(Run& run, Depth to) {
    for (Depth b = run.computed / block_; (b + 1) * block_ <= to; ++b) {
      publish(run, kv_key(run.path, b));
      if (has_state_) {
        publish(run, state_key(run.path, b));
        ++stats_.stored_states;
      }
    }
  }

  void end(Run& run) {
    release(run);
    free_ += run.own_pages;
    run.own_pages = 0;
  }

 private:
  struct Page {
    int holders;
    std::list<std::uint64_t>::iterator idle;  // if nobody holds it
  };

  std::uint64_t kv_key(const std::vector<NodeIndex>& path, Depth block) const {
    return std::uint64_t{path[static_cast<std::size_t>((block + 1) * block_ - 1)]} * 2;
  }
  std::uint64_t state_key(const std::vector<NodeIndex>& path, Depth block) const {
    return kv_key(path, block) + 1;
  }

  // For the blocks of `units` behind the first `shared` ones.
  std::int64_t pages_for(Depth units, Depth shared) const {
    const std::int64_t blocks = (units + block_ - 1) / block_ - shared;
    return blocks * (has_state_ ? 2 : 1);
  }

  void hold(Run& run, std::uint64_t key) {
    Page& page = cached_.at(key);
    if (page.holders++ == 0) idle_.erase(page.idle);
    run.held.push_back(key);
  }

  void publish(Run& run, std::uint64_t key) {
    const auto [place, is_new] = cached_.try_emplace(key, Page{1, {}});
    if (!is_new) return;  // somebody was first: this one stays the request's own
    --run.own_pages;
    run.held.push_back(key);
  }

  void release(Run& run) {
    for (std::size_t i = run.held.size(); i-- > 0;) {
      Page& page = cached_.at(run.held[i]);
      if (--page.holders == 0) page.idle = idle_.insert(idle_.end(), run.held[i]);
    }
    run.held.clear();
  }

  void evict() {
    const std::uint64_t key = idle_.front();
    idle_.pop_front();
    cached_.erase(key);
    ++free_;
    ++(key % 2 == 0 ? stats_.evicted_pages : stats_.evicted_states);
  }

  const PathIndex& index_;
  const Depth block_;  // units
  std::int64_t free_;  // pages that hold nothing
  const std::int64_t pages_;
  const bool has_state_;
  std::unordered_map<std::uint64_t, Page> cached_;
  std::list<std::uint64_t> idle_;  // least recently used first
  CacheModelStats stats_;
};

}  // namespace

Result<std::unique_ptr<CacheModel>> make_block_cache(const PathIndex& index,
                                                     const ModelCosts& model,
                                                     const CacheSettings& settings, UnitSize unit) {
  constexpr double kLeastBlock = 16;  // tokens
  const double state = model.state(settings.codec);
  const double tokens = std::max(kLeastBlock, state / model.kv_bytes);
  const auto block = static_cast<Depth>(std::ceil(tokens / unit.tokens));
  const double page = std::max(state, block * unit.tokens * model.kv_bytes);
  const auto pages = static_cast<std::int64_t>(settings.budget_bytes / page);
  if (pages < 2) {
    return fail(
        ErrorCode::replay_bad_setting,
        {{"reason", "a budget of " + std::to_string(std::llround(settings.budget_bytes / 1e6)) +
                        " MB does not hold two blocks with states of " + model.name}});
  }
  return std::make_unique<BlockCache>(index, block, pages, state > 0);
}

}  // namespace stemma::replay
