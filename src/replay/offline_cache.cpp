#include "replay/offline_cache.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "replay/modelled_cache.h"

namespace stemma::replay {

namespace {

constexpr double kNotNeeded = std::numeric_limits<double>::infinity();

class OfflineCache;

class OfflineRequest : public RunningRequest {
 public:
  OfflineRequest(OfflineCache& cache, std::uint32_t request, std::vector<NodeIndex> path,
                 Depth prompt, Depth hit)
      : cache_(cache),
        request_(request),
        path_(std::move(path)),
        prompt_(prompt),
        hit_(hit),
        computed_(hit) {}
  ~OfflineRequest() override;

  Depth hit() const override { return hit_; }
  void prefilled(Depth to) override;
  bool start_answer() override { return true; }  // its room was taken at admission
  void finish() override;

 private:
  OfflineCache& cache_;
  const std::uint32_t request_;
  const std::vector<NodeIndex> path_;
  const Depth prompt_;
  const Depth hit_;
  Depth computed_;
  bool running_ = true;
};

class OfflineCache : public CacheModel {
 public:
  OfflineCache(const PathIndex& index, const Future& future, double budget, double page,
               double state, double running_state)
      : index_(index),
        future_(future),
        capacity_(budget),
        page_(page),
        state_(state),
        running_state_(running_state),
        nodes_(index.size()),
        done_(index.requests(), false) {
    nodes_[kRootNode].resident = true;
    nodes_[kRootNode].computed = true;
    nodes_[kRootNode].pins = 1;
  }

  std::variant<std::unique_ptr<RunningRequest>, WaitReason> acquire(const Demand& demand) override {
    std::vector<NodeIndex> path;
    index_.path(demand.request, path);
    Depth there = 0;  // units that are resident
    Depth hit = 0;
    Depth in_flight = 0;
    for (const NodeIndex node : path) {
      const Node& n = nodes_[node];
      if (!n.resident) break;
      ++there;
      if (there > demand.prompt - 1) continue;
      if (n.in_flight) in_flight = there;
      if (n.state || (state_ == 0 && n.computed)) hit = there;
    }
    if (in_flight > hit) return WaitReason::prefix_in_flight;

    const NodeIndex deepest = there == 0 ? kRootNode : path[static_cast<std::size_t>(there - 1)];
    const double need =
        page_ * static_cast<double>(path.size() - static_cast<std::size_t>(there)) + running_state_;
    pin(deepest);
    if (!make_room(need)) {
      unpin(deepest);
      return WaitReason::no_pages;
    }
    count_limit(stats_, demand.prompt, there, hit);
    done_[future_.turn(demand.request)] = true;
    ++now_;
    if (hit > 0) ++stats_.restored_states;
    for (std::size_t i = 0; i < path.size(); ++i) {
      Node& n = nodes_[path[i]];
      n.last_request = demand.request;
      if (n.resident) continue;
      n.resident = true;
      n.in_flight = static_cast<Depth>(i) < demand.prompt;
      ++nodes_[index_.parent(path[i])].children;
      ++stats_.cached_units;
    }
    used_ += need;
    pin(path.back());
    unpin(deepest);
    return std::make_unique<OfflineRequest>(*this, demand.request, std::move(path), demand.prompt,
                                            hit);
  }

  bool fits(Depth units) const override { return page_ * units + running_state_ <= capacity_; }

  CacheModelStats stats() const override {
    CacheModelStats stats = stats_;
    stats.checkpoints = states_.size();
    return stats;
  }

  // The nodes are computed; checkpoints are taken where somebody will stop.
  void computed(std::span<const NodeIndex> nodes) {
    for (const NodeIndex node : nodes) {
      nodes_[node].computed = true;
      nodes_[node].in_flight = false;
      if (next_stop(node)) store_state(node);
    }
    make_room(0);
  }

  // A request ends that computed the nodes of its path from `hit` to `computed`.
  void end(std::span<const NodeIndex> path, Depth hit, Depth computed) {
    used_ -= running_state_;
    unpin(path.back());
    NodeIndex node = path.back();
    while (removable(node) && (!nodes_[node].computed || !next_use(node))) node = remove(node);
    const bool may_store = index_.depth(node) > hit && index_.depth(node) <= computed;
    if (removable(node) && may_store) store_state(node);
    while (state_ > 0 && removable(node) && !nodes_[node].state) node = remove(node);
    list_leaf(node);
    make_room(0);
  }

  // As end(), for a request that is dropped: nothing of it stays that it did not publish.
  void drop(std::span<const NodeIndex> path) {
    for (const NodeIndex node : path) {
      if (!nodes_[node].computed) nodes_[node].in_flight = false;
    }
    end(path, std::numeric_limits<Depth>::max(), 0);
  }

 private:
  struct Node {
    std::uint32_t last_request = 0;
    std::uint32_t children = 0;  // resident ones
    std::uint32_t pins =
        0;  // running requests whose path ends here; or the hit of one that is being admitted
    bool resident = false;
    bool in_flight = false;  // part of a prompt that is being computed
    bool computed = false;
    bool state = false;
  };
  // A branch that can be given up, or a checkpoint. What is kept of its place in the tree is
  // measured again before it decides anything.
  struct Leaf {
    NodeIndex node;
    Depth gain;       // units to the next checkpoint above
    Depth exclusive;  // units to the next fork, checkpoint or pin above
    std::optional<Turn> next;
  };
  struct State {
    NodeIndex node;
    Depth gain;
    std::optional<Turn> next;
  };

  bool removable(NodeIndex node) const {
    const Node& n = nodes_[node];
    return n.resident && n.children == 0 && n.pins == 0;
  }

  void pin(NodeIndex node) {
    ++nodes_[node].pins;
    unlist_leaf(node);
  }
  void unpin(NodeIndex node) {
    --nodes_[node].pins;
    list_leaf(node);
  }

  // The next turn that uses the node.
  std::optional<Turn> next_use(NodeIndex node) {
    std::uint32_t& request = nodes_[node].last_request;
    auto use = future_.next_use(request, index_.depth(node));
    // Admissions may come in another order than foreseen.
    while (use && done_[*use]) {
      request = future_.request_at(*use);
      use = future_.next_use(request, index_.depth(node));
    }
    return use;
  }

  std::optional<Turn> next_stop(NodeIndex node) const {
    std::optional<Turn> next;
    for (const Turn turn : future_.stops_at(node)) {
      if (!done_[turn]) {
        next = turn;
        break;
      }
    }
    const auto moved = moved_.find(node);
    if (moved != moved_.end()) {
      for (const Turn turn : moved->second) {
        if (!done_[turn] && (!next || turn < *next)) next = turn;
      }
    }
    return next;
  }

  void store_state(NodeIndex node) {
    if (state_ == 0 || nodes_[node].state) return;
    set_state(node);
    ++stats_.stored_states;
  }
  void set_state(NodeIndex node) {
    nodes_[node].state = true;
    state_places_[node] = states_.size();
    states_.push_back({node, gain_of(node), next_stop(node)});
    used_ += state_;
  }
  void clear_state(NodeIndex node) {
    nodes_[node].state = false;
    const std::size_t place = state_places_.at(node);
    state_places_.erase(node);
    if (place + 1 < states_.size()) {
      states_[place] = states_.back();
      state_places_[states_[place].node] = place;
    }
    states_.pop_back();
    moved_.erase(node);
    used_ -= state_;
  }

  // Returns the parent.
  NodeIndex remove(NodeIndex node) {
    unlist_leaf(node);
    Node& n = nodes_[node];
    if (n.state) clear_state(node);
    n.resident = n.in_flight = n.computed = false;
    used_ -= page_;
    --stats_.cached_units;
    const NodeIndex parent = index_.parent(node);
    --nodes_[parent].children;
    return parent;
  }

  void list_leaf(NodeIndex node) {
    if (!removable(node) || leaf_places_.contains(node)) return;
    leaf_places_[node] = leaves_.size();
    leaves_.push_back(measured(node));
  }
  void unlist_leaf(NodeIndex node) {
    const auto found = leaf_places_.find(node);
    if (found == leaf_places_.end()) return;
    const std::size_t place = found->second;
    leaf_places_.erase(found);
    if (place + 1 < leaves_.size()) {
      leaves_[place] = leaves_.back();
      leaf_places_[leaves_[place].node] = place;
    }
    leaves_.pop_back();
  }

  Depth gain_of(NodeIndex node) const {
    NodeIndex above = index_.parent(node);
    while (above != kRootNode && !nodes_[above].state) above = index_.parent(above);
    return index_.depth(node) - index_.depth(above);
  }

  Leaf measured(NodeIndex node) {
    Leaf leaf{node, 0, 0, next_use(node)};
    const Depth depth = index_.depth(node);
    NodeIndex above = index_.parent(node);
    for (; above != kRootNode && !nodes_[above].state; above = index_.parent(above)) {
      const bool shared = nodes_[above].children > 1 || nodes_[above].pins > 0;
      if (shared && leaf.exclusive == 0) leaf.exclusive = depth - index_.depth(above);
    }
    leaf.gain = depth - index_.depth(above);
    if (leaf.exclusive == 0) leaf.exclusive = leaf.gain;
    return leaf;
  }

  double turns_until(std::optional<Turn> turn) const {
    return turn ? std::max(1.0, static_cast<double>(*turn) - static_cast<double>(now_) + 1)
                : kNotNeeded;
  }
  double worth_giving_up(Leaf& leaf) {
    if (leaf.next && done_[*leaf.next]) leaf.next = next_use(leaf.node);
    const double bytes = page_ * leaf.exclusive + (nodes_[leaf.node].state ? state_ : 0);
    return turns_until(leaf.next) * bytes / leaf.gain;
  }
  double worth_giving_up(State& state) {
    if (state.next && done_[*state.next]) state.next = next_stop(state.node);
    return turns_until(state.next) * state_ / state.gain;
  }

  // Gives up what is worth least until so many bytes are free. False if it cannot.
  bool make_room(double bytes) {
    while (used_ + bytes > capacity_) {
      double best = -1;
      std::optional<std::size_t> leaf, state;
      for (std::size_t i = 0; i < leaves_.size(); ++i) {
        const double worth = worth_giving_up(leaves_[i]);
        if (worth > best) {
          best = worth;
          leaf = i;
        }
      }
      for (std::size_t i = 0; i < states_.size(); ++i) {
        if (removable(states_[i].node)) continue;  // goes with its branch
        const double worth = worth_giving_up(states_[i]);
        if (worth > best) {
          best = worth;
          state = i;
        }
      }
      if (state) {
        State& chosen = states_[*state];
        const Depth gain = gain_of(chosen.node);
        if (gain == chosen.gain || !chosen.next) {
          clear_state(chosen.node);
          ++stats_.evicted_states;
        } else {
          chosen.gain = gain;
        }
      } else if (leaf) {
        const Leaf now = measured(leaves_[*leaf].node);
        const bool changed =
            now.gain != leaves_[*leaf].gain || now.exclusive != leaves_[*leaf].exclusive;
        leaves_[*leaf] = now;
        if (!changed) cut(now, bytes);
      } else {
        return false;
      }
    }
    return true;
  }

  // Takes units from the end of a branch until so many bytes are free or the branch is gone.
  void cut(const Leaf& leaf, double bytes) {
    NodeIndex node = leaf.node;
    const auto turn = next_use(node);
    bool with_state = nodes_[node].state;
    Depth left = leaf.exclusive;
    do {
      node = remove(node);
      ++stats_.evicted_pages;
    } while (--left > 0 && used_ + bytes + (with_state ? state_ : 0) > capacity_);
    if (with_state && turn && node != kRootNode && !nodes_[node].state && nodes_[node].computed) {
      moved_[node].push_back(*turn);
      set_state(node);
    } else if (with_state) {
      ++stats_.evicted_states;
    }
    list_leaf(node);
  }

  const PathIndex& index_;
  const Future& future_;
  const double capacity_, page_, state_, running_state_;  // bytes
  double used_ = 0;
  std::vector<Node> nodes_;
  std::vector<bool> done_;  // by turn
  Turn now_ = 0;            // admissions so far
  std::vector<Leaf> leaves_;
  std::unordered_map<NodeIndex, std::size_t> leaf_places_;
  std::vector<State> states_;
  std::unordered_map<NodeIndex, std::size_t> state_places_;
  std::unordered_map<NodeIndex, std::vector<Turn>> moved_;  // whom a checkpoint that moved is for
  CacheModelStats stats_;
};

void OfflineRequest::prefilled(Depth to) {
  const auto from = static_cast<std::size_t>(computed_);
  cache_.computed(std::span(path_).subspan(from, static_cast<std::size_t>(to) - from));
  computed_ = to;
}

void OfflineRequest::finish() {
  if (computed_ >= prompt_) prefilled(static_cast<Depth>(path_.size()));
  cache_.end(path_, hit_, computed_);
  running_ = false;
}

OfflineRequest::~OfflineRequest() {
  if (running_) cache_.drop(path_);
}

}  // namespace

Result<std::unique_ptr<CacheModel>> make_offline_cache(const PathIndex& index, const Future& future,
                                                       const ModelCosts& model,
                                                       const CacheSettings& settings,
                                                       UnitSize unit) {
  return std::make_unique<OfflineCache>(index, future, settings.budget_bytes,
                                        model.kv_bytes * unit.tokens, model.state(settings.codec),
                                        model.state(StateCodec::f32));
}

}  // namespace stemma::replay
