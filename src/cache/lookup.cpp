// Namespaces, and what a prompt finds in its own: how much, why not more, and what computing it
// would store.

#include <algorithm>
#include <cassert>

#include "cache/cache_impl.h"
#include "cache/lease_state.h"

namespace stemma {

// ---- Namespaces

NamespaceId CacheImpl::namespace_for(std::string_view key) {
  const auto [place, added] = keys_.try_emplace(std::string(key), NamespaceId{last_namespace_});
  const NamespaceId id = place->second;
  if (!added) return id;
  ++last_namespace_;
  if (keys_.size() > sweep_at_) {
    forget_empty_namespaces();
    keys_.try_emplace(std::string(key), id);
  }
  return id;
}

void CacheImpl::forget_empty_namespaces() {
  std::erase_if(roots_, [this](const auto& root) {
    if (!tree_.empty_root(root.second)) return false;
    tree_.remove_root(root.second);
    return true;
  });
  std::erase_if(keys_, [this](const auto& key) { return !roots_.contains(key.second); });
  sweep_at_ = std::max<std::size_t>(128, keys_.size() * 2);
}

std::optional<NodeId> CacheImpl::root_of(NamespaceId ns) const {
  const auto root = roots_.find(ns);
  if (root == roots_.end()) return std::nullopt;
  return root->second;
}

NodeId CacheImpl::make_root(NamespaceId ns) {
  if (const auto root = root_of(ns)) return *root;
  const NodeId root = tree_.add_root();
  roots_.emplace(ns, root);
  return root;
}

// ---- What a prompt finds

CacheImpl::Found CacheImpl::find(NodeId root, std::span<const Token> tokens) const {
  assert(!tokens.empty());
  const Tree::Match match = tree_.match(root, tokens);
  const Depth limit = std::min(match.matched, static_cast<Depth>(tokens.size()) - 1);
  const Depth usable = tree_.restorable(tree_.covering(match.node, limit), limit);
  return {match.node, {match.matched, usable, limit_of(match.node, match.matched, usable, tokens)}};
}

ReuseLimit CacheImpl::limit_of(NodeId node, Depth matched, Depth usable,
                               std::span<const Token> tokens) const {
  const Depth most = static_cast<Depth>(tokens.size()) - 1;
  if (usable == most) return ReuseLimit::whole_prompt;
  const Depth limit = std::min(matched, most);
  if (usable == limit) {
    if (!tree_.went_on(node, matched, tokens[matched])) return ReuseLimit::no_such_prefix;
    return kv_       ? ReuseLimit::kv_evicted
           : states_ ? ReuseLimit::state_evicted
                     : ReuseLimit::window_evicted;
  }
  // The window is what lacks if all else could be restored at a deeper place.
  if (window_ &&
      (states_ ? states_->restorable(tree_.covering(node, limit), limit) : limit) > usable)
    return ReuseLimit::window_evicted;
  if (states_ && states_->evicted_depth(node, usable, limit) > 0) return ReuseLimit::state_evicted;
  return limit / config_.state_grid * config_.state_grid == usable ? ReuseLimit::below_grid
                                                                   : ReuseLimit::state_not_stored;
}

Lookup CacheImpl::lookup(NamespaceId ns, std::span<const Token> tokens) const {
  Lookup found{0, 0, ReuseLimit::no_such_prefix};
  if (const auto root = root_of(ns)) {
    found = find(*root, tokens).lookup;
  } else if (tokens.size() == 1) {
    found.limit = ReuseLimit::whole_prompt;
  }
  return look_elsewhere(ns, tokens, found);
}

Lookup CacheImpl::look_elsewhere(NamespaceId ns, std::span<const Token> tokens,
                                 Lookup found) const {
  if (found.limit == ReuseLimit::no_such_prefix && found.matched == 0 &&
      matched_elsewhere(ns, tokens) > 0) {
    found.limit = ReuseLimit::other_namespace;
  }
  return found;
}

Depth CacheImpl::matched_elsewhere(NamespaceId ns, std::span<const Token> tokens) const {
  constexpr int kNamespacesLooked = 64;
  Depth most = 0;
  int looked = 0;
  for (const auto& [other, root] : roots_) {
    if (other == ns) continue;
    if (++looked > kNamespacesLooked) break;
    most = std::max(most, tree_.match(root, tokens).matched);
  }
  return most;
}

Explanation CacheImpl::explain(const AcquireRequest& request) const {
  Explanation explanation{};
  explanation.length = static_cast<Depth>(request.tokens.size());
  explanation.lookup = lookup(request.ns, request.tokens);
  explanation.other_namespace_matched = matched_elsewhere(request.ns, request.tokens);
  const Lookup& found = explanation.lookup;
  for (const LeaseState* lease : leases_) {
    if (lease->ns() != request.ns || !lease->in_prompt()) continue;
    explanation.in_flight =
        std::max(explanation.in_flight, common_prefix(request.tokens, lease->tokens()));
  }

  std::vector<Depth> forks;
  std::vector<Depth> existing;
  if (const auto root = root_of(request.ns)) {
    const NodeId node = tree_.match(*root, request.tokens).node;
    forks = tree_.forks(node, found.usable, found.matched);
    explanation.forks = tree_.forks(node, 0, found.matched);
    if (window_) explanation.window = window_->present(node, found.matched);
    if (states_) {
      existing = states_->depths(node, found.usable, found.matched);
      explanation.checkpoints = states_->depths(node, 0, found.matched);
      explanation.evicted_checkpoint = states_->evicted_depth(node, 0, found.matched);
    }
  }
  if (!states_ || config_.strategy == SchedulerStrategy::no_buffer) return explanation;
  SnapshotInput input = snapshot_input(found.usable, found.matched, explanation.length,
                                       explanation.checkpoints.size());
  input.message_ends = request.message_ends;
  input.forks = forks;
  input.existing = existing;
  explanation.planned = plan_snapshots(config_.snapshot, input);
  return explanation;
}

SnapshotInput CacheImpl::snapshot_input(Depth hit, Depth matched, Depth length,
                                        std::size_t taken) const {
  SnapshotInput input{.hit = hit, .matched = matched, .length = length, .grid = config_.state_grid};
  const SlotPool<RowId>& rows = states_->pool();
  input.free_share = 1.0 * rows.free() / rows.capacity();
  if (budget_ && (kv_ || window_)) {
    const auto warm = [](const auto& pool) {
      return static_cast<double>(pool.warm()) * static_cast<double>(pool.slot_bytes());
    };
    double free = static_cast<double>(budget_->room()) + warm(rows);
    if (kv_) free += warm(kv_->pool());
    if (window_) free += warm(window_->pool());
    input.free_share = std::min(input.free_share, free / static_cast<double>(budget_->capacity()));
  }
  const auto share = static_cast<std::size_t>(config_.snapshot.path_share * rows.capacity());
  input.most = std::max<std::size_t>(1, share > taken ? share - taken : 0);
  return input;
}

}  // namespace stemma
