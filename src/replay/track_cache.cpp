#include "replay/track_cache.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "replay/modelled_cache.h"

namespace stemma::replay {

namespace {

constexpr Depth kGridTokens = 64;
constexpr Depth kTrackTokens = 256;

class TrackCache : public CacheModel {
 public:
  struct Run : ModelledRun {
    Depth matched;           // KV that was in the tree
    Depth inserted;          // the path is in the tree, and locked, up to here
    std::int64_t own_units;  // of KV, outside the tree
  };

  TrackCache(const PathIndex& index, std::int64_t units, std::int64_t states, Depth grid,
             Depth track)
      : index_(index),
        free_units_(units),
        units_(units),
        free_states_(states),
        states_(states),
        grid_(grid),
        track_(track),
        nodes_(index.size()) {
    nodes_[kRootNode].locks = 1;
  }

  std::variant<std::unique_ptr<RunningRequest>, WaitReason> acquire(const Demand& demand) override {
    Run run;
    index_.path(demand.request, run.path);
    run.prompt = demand.prompt;
    run.matched = 0;
    run.hit = states_ == 0 ? demand.prompt - 1 : 0;
    while (run.matched < demand.prompt - 1 && node(run, run.matched + 1).resident) {
      ++run.matched;
      if (states_ > 0 && node(run, run.matched).state) run.hit = run.matched;
    }
    run.hit = std::min(run.hit, run.matched);
    run.computed = run.inserted = run.hit;
    run.own_units = static_cast<std::int64_t>(run.path.size()) - run.hit;

    lock(at(run, run.hit));
    if (!free_kv(run.own_units)) {
      unlock(at(run, run.hit));
      return WaitReason::no_pages;
    }
    if (states_ > 0 && !free_state_rows(kRunningStates)) {
      unlock(at(run, run.hit));
      return WaitReason::no_rows;
    }
    free_units_ -= run.own_units;
    if (states_ > 0) free_states_ -= kRunningStates;
    touch(run, run.hit);
    count_limit(stats_, demand.prompt, run.matched, run.hit);
    if (run.hit > 0) ++stats_.restored_states;
    return std::make_unique<ModelledRequest<TrackCache>>(*this, std::move(run));
  }

  bool fits(Depth units) const override {
    return units <= units_ && (states_ == 0 || kRunningStates <= states_);
  }

  CacheModelStats stats() const override {
    CacheModelStats stats = stats_;
    stats.checkpoints = state_order_.size();
    return stats;
  }

  void computed(Run& run, Depth to) {
    if (to <= run.prompt) {
      const Depth branch = run.matched / grid_ * grid_;
      if (branch > run.computed && branch < to) insert(run, branch);
      insert(run, to / grid_ * grid_);
    } else {
      insert(run, to / track_ * track_);
    }
  }

  void end(Run& run) {
    free_units_ += run.own_units;
    run.own_units = 0;
    if (states_ > 0) free_states_ += kRunningStates;
    unlock(at(run, run.inserted));
  }

 private:
  static constexpr std::int64_t kRunningStates = 2;

  struct Node {
    std::uint32_t children = 0;  // resident ones
    std::uint32_t locks = 0;     // running requests whose lock ends here
    std::uint64_t kv_used = 0;
    std::uint64_t state_used = 0;
    bool resident = false;
    bool state = false;
  };

  NodeIndex at(const Run& run, Depth depth) const {
    return depth == 0 ? kRootNode : run.path[static_cast<std::size_t>(depth - 1)];
  }
  Node& node(const Run& run, Depth depth) { return nodes_[at(run, depth)]; }

  bool is_free_leaf(const Node& n) const { return n.resident && n.children == 0 && n.locks == 0; }
  void list_leaf(NodeIndex i) {
    if (is_free_leaf(nodes_[i])) leaf_order_.emplace(nodes_[i].kv_used, i);
  }
  void unlist_leaf(NodeIndex i) {
    if (is_free_leaf(nodes_[i])) leaf_order_.erase({nodes_[i].kv_used, i});
  }
  void lock(NodeIndex i) {
    unlist_leaf(i);
    ++nodes_[i].locks;
  }
  void unlock(NodeIndex i) {
    --nodes_[i].locks;
    list_leaf(i);
  }

  // A use of the path up to a depth: of its KV, and of all states on it.
  void touch(Run& run, Depth depth) {
    ++clock_;
    for (Depth d = 1; d <= depth; ++d) {
      const NodeIndex i = at(run, d);
      Node& n = nodes_[i];
      unlist_leaf(i);
      n.kv_used = clock_;
      list_leaf(i);
      if (!n.state) continue;
      state_order_.erase({n.state_used, i});
      n.state_used = clock_;
      state_order_.emplace(n.state_used, i);
    }
  }

  // Puts the path up to `depth` into the tree, with a state there.
  void insert(Run& run, Depth depth) {
    if (depth <= run.inserted) return;
    for (Depth d = run.inserted + 1; d <= depth; ++d) {
      Node& n = node(run, d);
      --run.own_units;
      if (n.resident) {
        ++free_units_;  // the tree's is used, the own one given back
        continue;
      }
      n.resident = true;
      n.kv_used = 0;
      ++stats_.cached_units;
      const NodeIndex parent = at(run, d - 1);
      unlist_leaf(parent);
      ++nodes_[parent].children;
    }
    lock(at(run, depth));
    unlock(at(run, run.inserted));
    run.inserted = depth;
    Node& n = node(run, depth);
    if (states_ > 0 && !n.state) {
      if (free_state_rows(1)) {
        --free_states_;
        n.state = true;
        state_order_.emplace(n.state_used, at(run, depth));
        ++stats_.stored_states;
      } else {
        ++stats_.skipped_marks;
      }
    }
    touch(run, depth);
  }

  void drop_state(NodeIndex i) {
    Node& n = nodes_[i];
    state_order_.erase({n.state_used, i});
    n.state = false;
    ++free_states_;
    ++stats_.evicted_states;
  }

  // A free leaf goes; returns its parent.
  NodeIndex drop_leaf(NodeIndex i) {
    Node& n = nodes_[i];
    unlist_leaf(i);
    if (n.state) drop_state(i);
    n.resident = false;
    ++free_units_;
    ++stats_.evicted_pages;
    --stats_.cached_units;
    const NodeIndex parent = index_.parent(i);
    --nodes_[parent].children;
    return parent;
  }

  // From a free leaf up to the next state, fork or lock: the node of a radix tree.
  void drop_branch(NodeIndex leaf) {
    NodeIndex i = drop_leaf(leaf);
    while (is_free_leaf(nodes_[i]) && !nodes_[i].state) i = drop_leaf(i);
    list_leaf(i);
  }

  bool free_kv(std::int64_t units) {
    while (free_units_ < units) {
      if (leaf_order_.empty()) return false;
      drop_branch(leaf_order_.begin()->second);
    }
    return true;
  }

  bool free_state_rows(std::int64_t rows) {
    while (free_states_ < rows) {
      if (state_order_.empty()) return false;
      const NodeIndex i = state_order_.begin()->second;
      if (is_free_leaf(nodes_[i])) {
        drop_branch(i);
      } else {
        drop_state(i);
      }
    }
    return true;
  }

  const PathIndex& index_;
  std::int64_t free_units_;
  const std::int64_t units_;
  std::int64_t free_states_;
  const std::int64_t states_;  // 0: the model has none
  const Depth grid_, track_;   // units
  std::vector<Node> nodes_;
  std::uint64_t clock_ = 0;
  std::set<std::pair<std::uint64_t, NodeIndex>>
      leaf_order_;  // free leaves, least recently used first
  std::set<std::pair<std::uint64_t, NodeIndex>> state_order_;  // all states
  CacheModelStats stats_;
};

}  // namespace

Result<std::unique_ptr<CacheModel>> make_track_cache(const PathIndex& index,
                                                     const ModelCosts& model,
                                                     const CacheSettings& settings, UnitSize unit) {
  const double state = model.state(settings.codec);
  const double state_bytes =
      state > 0 ? settings.budget_bytes * settings.state_share.value_or(0.5) : 0;
  const double unit_bytes = model.kv_bytes * unit.tokens;
  const auto units = static_cast<std::int64_t>((settings.budget_bytes - state_bytes) / unit_bytes);
  const auto states = state > 0 ? static_cast<std::int64_t>(state_bytes / state) : 0;
  if (units < 1 || (state > 0 && states < 3)) {
    return fail(
        ErrorCode::replay_bad_setting,
        {{"reason", "a budget of " + std::to_string(std::llround(settings.budget_bytes / 1e6)) +
                        " MB does not hold three states of " + model.name}});
  }
  return std::make_unique<TrackCache>(index, units, states, unit.units(kGridTokens),
                                      unit.units(kTrackTokens));
}

}  // namespace stemma::replay
