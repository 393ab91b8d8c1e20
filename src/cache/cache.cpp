// Lookup, admission and eviction on behalf of leases; Cache forwards to
// CacheImpl.

#include "cache/cache.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "cache/cache_impl.h"
#include "cache/lease_state.h"

namespace stemma {

CacheImpl::CacheImpl(const CacheConfig& config, std::unique_ptr<EvictionPolicy> policy)
    : config_(config), policy_(std::move(policy)) {
  if (config.budget_bytes > 0) budget_.emplace(config.budget_bytes);
  ByteBudget* const budget = budget_ ? &*budget_ : nullptr;
  if (config.page_count > 0) {
    kv_kind_ = static_cast<EntryKind>(components_.size());
    kv_.emplace(tree_, *policy_, kv_kind_, config.cost, config.page_size, config.page_count,
                config.page_bytes, budget);
    components_.push_back(&*kv_);
  }
  if (config.row_count > 0) {
    state_kind_ = static_cast<EntryKind>(components_.size());
    states_.emplace(tree_, *policy_, state_kind_, config.cost, config.row_count, config.row_bytes,
                    budget);
    components_.push_back(&*states_);
  }
  tree_.set_components(components_);
}

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
    return kv_ ? ReuseLimit::kv_evicted : ReuseLimit::state_evicted;
  }
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
  if (budget_ && kv_) {
    const double free =
        static_cast<double>(budget_->room()) +
        static_cast<double>(rows.warm()) * static_cast<double>(rows.slot_bytes()) +
        static_cast<double>(kv_->pool().warm()) * static_cast<double>(kv_->pool().slot_bytes());
    input.free_share = std::min(input.free_share, free / static_cast<double>(budget_->capacity()));
  }
  const auto share = static_cast<std::size_t>(config_.snapshot.path_share * rows.capacity());
  input.most = std::max<std::size_t>(1, share > taken ? share - taken : 0);
  return input;
}

// ---- Admission

bool CacheImpl::wait_for_prefix(const AcquireRequest& request, Depth usable) {
  const bool branches =
      config_.snapshot.branch_snapshot && config_.strategy != SchedulerStrategy::no_buffer;
  LeaseState* nearest = nullptr;
  Depth parting = 0;
  for (LeaseState* lease : leases_) {
    if (lease->ns() != request.ns || !lease->in_prompt()) continue;
    const Depth common =
        common_prefix(request.tokens.first(request.tokens.size() - 1), lease->tokens());
    if (common <= std::max(lease->computed(), parting)) continue;
    Depth restorable = common;
    if (states_) {
      restorable = branches ? common / config_.state_grid * config_.state_grid
                            : lease->planned_depth(common);
    }
    if (restorable - usable < config_.wait_threshold || restorable <= lease->computed()) continue;
    nearest = lease;
    parting = common;
  }
  if (nearest && branches && states_)
    nearest->plan_branch(parting / config_.state_grid * config_.state_grid);
  return nearest != nullptr;
}

std::variant<std::unique_ptr<LeaseState>, WaitReason> CacheImpl::reserve(
    const AcquireRequest& request, const Found& found, Depth matched, Depth hit) {
  auto lease = std::make_unique<LeaseState>(*this, request, found.lookup,
                                            tree_.covering(found.node, matched), matched, hit);
  const std::size_t missing = lease->missing_pages();
  // Alone, a sequence does without a spare row.
  const std::size_t rows =
      leases_.size() == 1 ? std::min<std::size_t>(1, lease->missing_rows()) : lease->missing_rows();
  if (kv_ && missing > std::size_t{kv_->pool().free()} + kv_->pool().evictable())
    return WaitReason::no_pages;
  if (states_ && std::size_t{states_->pool().free()} + states_->pool().evictable() < rows)
    return WaitReason::no_rows;
  if (!budget_fits(missing, rows)) return WaitReason::no_pages;
  lease->start(request.message_ends);
  return lease;
}

std::variant<Lease, WaitReason> CacheImpl::acquire(const AcquireRequest& request) {
  policy_->advance(tree_.clock(), request.now_seconds);
  Found found = find(make_root(request.ns), request.tokens);
  found.lookup = look_elsewhere(request.ns, request.tokens, found.lookup);
  if (wait_for_prefix(request, found.lookup.usable)) {
    ++counters_.waits_in_flight;
    return WaitReason::prefix_in_flight;
  }

  Depth matched = found.lookup.matched;
  Depth hit = found.lookup.usable;
  auto attempt = reserve(request, found, matched, hit);
  // With no other lease to wait for, give up what a copy's source would take:
  // its page, then its row.
  while (std::holds_alternative<WaitReason>(attempt) && leases_.empty()) {
    if (kv_ && std::get<WaitReason>(attempt) == WaitReason::no_pages &&
        kv_->whole_pages(matched) < matched) {
      matched = kv_->whole_pages(matched);
      hit = std::min(hit, matched);
      hit = tree_.restorable(tree_.covering(found.node, hit), hit);
    } else if (hit > 0 && states_) {
      hit = 0;
    } else {
      break;
    }
    attempt = reserve(request, found, matched, hit);
  }

  if (const auto* reason = std::get_if<WaitReason>(&attempt)) {
    ++(*reason == WaitReason::no_pages ? counters_.waits_no_pages : counters_.waits_no_rows);
    check();
    return *reason;
  }
  Lease lease(std::move(std::get<std::unique_ptr<LeaseState>>(attempt)));
  count_lease(*lease.state_);
  check();
  return lease;
}

void CacheImpl::count_lease(const LeaseState& lease) {
  ++counters_.lookups;
  counters_.hit_tokens += lease.hit();
  counters_.prompt_tokens += lease.tokens().size();
  ++counters_.limits[static_cast<std::size_t>(lease.lookup().limit)];
}

bool CacheImpl::fits(Depth length) const {
  const std::uint64_t pages = kv_ ? kv_->pages_for(length) : 0;
  if (pages > config_.page_count) return false;
  if (!budget_) return true;
  return pages * config_.page_bytes + (states_ ? config_.row_bytes : 0) <= budget_->capacity();
}

// ---- Room

bool CacheImpl::budget_fits(std::uint64_t pages, std::uint64_t rows) const {
  if (!budget_) return true;
  std::uint64_t bytes = 0;
  if (kv_) bytes += (kv_->pool().pinned() + pages) * config_.page_bytes;
  if (states_) bytes += (states_->pool().pinned() + rows) * config_.row_bytes;
  return bytes <= budget_->capacity();
}

bool CacheImpl::cool_other(EntryKind kind) {
  if (kv_ && kv_kind_ != kind) {
    if (const auto page = kv_->pool().cool()) {
      cooled_.pages.push_back(*page);
      return true;
    }
  }
  if (states_ && state_kind_ != kind) {
    if (const auto row = states_->pool().cool()) {
      cooled_.rows.push_back(*row);
      return true;
    }
  }
  return false;
}

void CacheImpl::evict(EntryId victim, std::uint32_t wanted) {
  components_[victim.kind]->evict(victim.slot, wanted);
}

template <class Pool>
bool CacheImpl::make_available(Pool& pool, EntryKind kind, std::uint64_t count) {
  constexpr unsigned kAll = (1u << kEntryKinds) - 1;
  while (pool.available() < count) {
    // Free slots lack only memory: others' free slots give theirs up before
    // anything is evicted.
    const bool only_bytes = pool.free() >= count;
    if (only_bytes && cool_other(kind)) continue;
    const std::optional<EntryId> victim = policy_->victim(only_bytes ? kAll : 1u << kind);
    if (!victim) return false;
    const std::uint64_t wanted = count - pool.available();
    const std::uint64_t bytes = wanted * pool.slot_bytes();
    const std::uint64_t theirs = victim->kind == kind || !kv_ || config_.page_bytes == 0
                                     ? wanted
                                     : (bytes + config_.page_bytes - 1) / config_.page_bytes;
    evict(*victim, static_cast<std::uint32_t>(std::min<std::uint64_t>(theirs, 0xFFFFFFFF)));
  }
  return true;
}

bool CacheImpl::take_pages(std::size_t count, PageTable& table) {
  if (count == 0) return true;
  SlotPool<PageId>& pool = kv_->pool();
  if (count > std::size_t{pool.free()} + pool.evictable() || !budget_fits(count, 0)) return false;
  const std::uint32_t used = pool.evictable();
  [[maybe_unused]] const bool available = make_available(pool, kv_kind_, count);
  assert(available);
  counters_.evicted_pages += used - pool.evictable();
  for (std::size_t i = 0; i < count; ++i) table.push_back(std::move(*pool.take()));
  return true;
}

std::optional<RowRef> CacheImpl::take_row() {
  SlotPool<RowId>& pool = states_->pool();
  if (pool.free() + pool.evictable() == 0 || !budget_fits(0, 1)) return std::nullopt;
  const std::uint32_t used = kv_ ? kv_->pool().evictable() : 0;
  [[maybe_unused]] const bool available = make_available(pool, state_kind_, 1);
  assert(available);
  if (kv_) counters_.evicted_pages += used - kv_->pool().evictable();
  return pool.take();
}

std::optional<RowRef> CacheImpl::row_for_mark(NodeId node, const PlannedMark& mark,
                                              const Retention& retention) {
  SlotPool<RowId>& pool = states_->pool();
  if (mark.source == MarkSource::periodic) {
    if (pool.available() == 0 || (pool.available() - 1) * 4 < pool.capacity()) return std::nullopt;
    return pool.take();
  }
  if (!budget_fits(0, 1)) return std::nullopt;
  if (pool.available() == 0) {
    while (pool.free() > 0 && pool.available() == 0 && cool_other(state_kind_)) {
    }
  }
  if (pool.available() == 0) {
    constexpr unsigned kAll = (1u << kEntryKinds) - 1;
    const auto victim = policy_->victim(pool.free() > 0 ? kAll : 1u << state_kind_);
    EntryInfo candidate = states_->candidate(node, mark.depth, mark.source);
    candidate.priority = retention.priority;
    candidate.retain_until = retention.until;
    if (!victim || !policy_->worth(candidate, *victim)) return std::nullopt;
  }
  return take_row();
}

void CacheImpl::count_marks(std::size_t taken, std::size_t skipped) {
  counters_.marks_taken += taken;
  counters_.marks_skipped += skipped;
}

void CacheImpl::flush() {
  constexpr unsigned kAll = (1u << kEntryKinds) - 1;
  const std::uint32_t used = kv_ ? kv_->pool().evictable() : 0;
  while (const auto victim = policy_->victim(kAll)) evict(*victim, 0xFFFFFFFF);
  if (kv_) counters_.evicted_pages += used - kv_->pool().evictable();
  forget_empty_namespaces();
  check();
}

// ---- Reports

CacheStats CacheImpl::stats() const {
  CacheStats stats = counters_;
  const auto pool = [](const auto& p) {
    return CacheStats::Pool{p.capacity(), p.free(), p.evictable(), p.pinned()};
  };
  if (kv_) stats.pages = pool(kv_->pool());
  if (states_) stats.rows = pool(states_->pool());
  if (budget_) {
    stats.budget_bytes = budget_->capacity();
    stats.budget_free_bytes = budget_->room();
  }
  stats.nodes = tree_.nodes().size() - roots_.size();
  stats.cached_tokens = tree_.cached_tokens();
  stats.checkpoints = states_ ? states_->checkpoints() : 0;
  stats.evicted_checkpoints = states_ ? states_->dropped() : 0;
  stats.leases = leases_.size();
  stats.metadata_bytes = tree_.metadata_bytes() + policy_->metadata_bytes();
  for (const Component* component : components_)
    stats.metadata_bytes += component->metadata_bytes();
  return stats;
}

std::optional<std::string> CacheImpl::verify() const {
  if (auto broken = tree_.verify()) return broken;
  std::vector<LeaseView> views;
  for (const LeaseState* lease : leases_) {
    if (auto broken = lease->verify()) return broken;
    views.push_back(lease->view());
  }
  for (const Component* component : components_) {
    if (auto broken = component->verify(views)) return broken;
  }
  if (budget_) {
    std::uint64_t used = 0;
    if (kv_)
      used += (kv_->pool().capacity() - kv_->pool().free() + kv_->pool().warm()) *
              kv_->pool().slot_bytes();
    if (states_)
      used += (states_->pool().capacity() - states_->pool().free() + states_->pool().warm()) *
              states_->pool().slot_bytes();
    if (used != budget_->capacity() - budget_->room()) return "the budget's count is wrong";
  }
  return std::nullopt;
}

void CacheImpl::check() const {
#ifdef STEMMA_CHECKED
  if (const auto broken = verify()) {
    std::fprintf(stderr, "cache: %s\n", broken->c_str());
    std::abort();
  }
#endif
}

std::string_view name_of(ReuseLimit limit) {
  switch (limit) {
    case ReuseLimit::whole_prompt:
      return "whole_prompt";
    case ReuseLimit::no_such_prefix:
      return "no_such_prefix";
    case ReuseLimit::other_namespace:
      return "other_namespace";
    case ReuseLimit::kv_evicted:
      return "kv_evicted";
    case ReuseLimit::state_evicted:
      return "state_evicted";
    case ReuseLimit::state_not_stored:
      return "state_not_stored";
    case ReuseLimit::below_grid:
      return "below_grid";
  }
  return "";
}

std::string_view name_of(WaitReason reason) {
  switch (reason) {
    case WaitReason::prefix_in_flight:
      return "prefix_in_flight";
    case WaitReason::no_pages:
      return "no_pages";
    case WaitReason::no_rows:
      return "no_rows";
  }
  return "";
}

std::string_view name_of(SchedulerStrategy strategy) {
  switch (strategy) {
    case SchedulerStrategy::automatic:
      return "auto";
    case SchedulerStrategy::no_buffer:
      return "no_buffer";
    case SchedulerStrategy::extra_buffer:
      return "extra_buffer";
    case SchedulerStrategy::extra_buffer_lazy:
      return "extra_buffer_lazy";
  }
  return "";
}

Cache::Cache(std::unique_ptr<CacheImpl> impl) : impl_(std::move(impl)) {}
Cache::~Cache() = default;

Result<std::unique_ptr<Cache>> Cache::create(const CacheConfig& config) {
  STEMMA_TRY(auto policy, make_eviction_policy(config.eviction));
  return create(config, std::move(policy));
}

Result<std::unique_ptr<Cache>> Cache::create(const CacheConfig& config,
                                             std::unique_ptr<EvictionPolicy> policy) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max() - 1;
  const auto bad = [](std::string reason) {
    return fail(ErrorCode::cache_bad_config, {{"reason", std::move(reason)}});
  };
  const auto range = [](auto value) { return "is " + std::to_string(value) + "; it must be "; };
  const SnapshotSettings& snapshot = config.snapshot;
  if (config.page_size < 1 || config.page_size > 256)
    return bad("page_size " + range(config.page_size) + "1 to 256");
  if (config.page_count == 0 && config.row_count == 0)
    return bad("there are neither pages nor state rows");
  if (config.page_count > kMost)
    return bad("page_count " + range(config.page_count) + "at most " + std::to_string(kMost));
  if (config.row_count > kMost)
    return bad("row_count " + range(config.row_count) + "at most " + std::to_string(kMost));
  if (config.wait_threshold < 1)
    return bad("wait_threshold " + range(config.wait_threshold) + "at least 1");
  if (config.state_grid < 1) return bad("state_grid " + range(config.state_grid) + "at least 1");
  if (config.page_bytes == 0 || config.row_bytes == 0)
    return bad("page_bytes and row_bytes must be at least 1");
  if (snapshot.periodic_interval < 0) {
    return bad("periodic_interval " + range(snapshot.periodic_interval) +
               "at least 1, or 0 for none");
  }
  if (snapshot.idle_interval < 0) {
    return bad("idle_interval " + range(snapshot.idle_interval) +
               "at least 1, or 0 for none of its own");
  }
  if (snapshot.generation_interval < 0) {
    return bad("generation_interval " + range(snapshot.generation_interval) +
               "at least 1, or 0 for none");
  }
  if (snapshot.ladder_start < 0)
    return bad("ladder_start " + range(snapshot.ladder_start) + "at least 1, or 0 for none");
  if (!(snapshot.path_share > 0 && snapshot.path_share <= 1))
    return bad("path_share " + range(snapshot.path_share) + "above 0 and at most 1");
  for (const Depth offset : snapshot.offsets_from_start) {
    if (offset < 1) return bad("an offset from the start " + range(offset) + "at least 1");
  }
  for (const Depth offset : snapshot.offsets_from_end) {
    if (offset < 0) return bad("an offset from the end " + range(offset) + "at least 0");
  }
  return std::unique_ptr<Cache>(new Cache(std::make_unique<CacheImpl>(config, std::move(policy))));
}

NamespaceId Cache::namespace_for(std::string_view key) { return impl_->namespace_for(key); }
Lookup Cache::lookup(NamespaceId ns, std::span<const Token> tokens) const {
  return impl_->lookup(ns, tokens);
}
Explanation Cache::explain(const AcquireRequest& request) const { return impl_->explain(request); }
std::variant<Lease, WaitReason> Cache::acquire(const AcquireRequest& request) {
  return impl_->acquire(request);
}
bool Cache::fits(Depth length) const { return impl_->fits(length); }
void Cache::flush() { impl_->flush(); }
Cache::Cooled Cache::take_cooled() { return impl_->take_cooled(); }
CacheStats Cache::stats() const { return impl_->stats(); }
std::optional<std::string> Cache::verify() const { return impl_->verify(); }

}  // namespace stemma
