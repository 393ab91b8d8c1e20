// What a cache is made of, its reports, checks and names. Cache forwards to CacheImpl, whose other
// parts are in lookup.cpp, admission.cpp and room.cpp.

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
  // Before KV, which moves pins, and so has entries described anew, while it is told of a leaf's
  // growth: then window pages must have been told.
  if (config.window > 0) {
    window_kind_ = static_cast<EntryKind>(components_.size());
    window_.emplace(tree_, *policy_, window_kind_, config.cost, config.page_size, config.window,
                    config.window_page_count, config.window_page_bytes, budget);
    components_.push_back(&*window_);
  }
  if (config.page_count > 0) {
    kv_kind_ = static_cast<EntryKind>(components_.size());
    kv_.emplace(tree_, *policy_, kv_kind_, config.cost, config.page_size, config.page_count,
                config.page_bytes, budget);
    if (budget) kv_->pool().warm_up(config.warm_pages);
    components_.push_back(&*kv_);
  }
  if (config.row_count > 0) {
    state_kind_ = static_cast<EntryKind>(components_.size());
    states_.emplace(tree_, *policy_, state_kind_, config.cost, config.row_count, config.row_bytes,
                    budget);
    if (budget) states_->pool().warm_up(config.warm_rows);
    components_.push_back(&*states_);
  }
  tree_.set_components(components_);
}

CacheStats CacheImpl::stats() const {
  CacheStats stats = counters_;
  const auto pool = [](const auto& p) {
    return CacheStats::Pool{p.capacity(), p.free(), p.evictable(), p.pinned()};
  };
  if (kv_) stats.pages = pool(kv_->pool());
  if (window_) stats.window_pages = pool(window_->pool());
  if (states_) stats.rows = pool(states_->pool());
  if (budget_) {
    stats.budget_bytes = budget_->capacity();
    stats.budget_free_bytes = budget_->room();
  }
  stats.nodes = tree_.nodes().size() - roots_.size();
  stats.cached_tokens = tree_.cached_tokens();
  stats.checkpoints = states_ ? states_->checkpoints() : 0;
  stats.evicted_checkpoints = states_ ? states_->dropped() : 0;
  stats.evicted_window_pages = window_ ? window_->dropped() : 0;
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
    const auto resident = [](const auto& pool) {
      return (pool.capacity() - pool.free() + pool.warm()) * pool.slot_bytes();
    };
    std::uint64_t used = 0;
    if (kv_) used += resident(kv_->pool());
    if (window_) used += resident(window_->pool());
    if (states_) used += resident(states_->pool());
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
    case ReuseLimit::window_evicted:
      return "window_evicted";
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
  if (config.page_count == 0 && config.row_count == 0 && config.window == 0)
    return bad("there are neither pages nor state rows");
  if (config.page_count > kMost)
    return bad("page_count " + range(config.page_count) + "at most " + std::to_string(kMost));
  if (config.row_count > kMost)
    return bad("row_count " + range(config.row_count) + "at most " + std::to_string(kMost));
  if (config.window < 0) return bad("window " + range(config.window) + "at least 1, or 0 for none");
  if (config.window_page_count > kMost) {
    return bad("window_page_count " + range(config.window_page_count) + "at most " +
               std::to_string(kMost));
  }
  if ((config.window > 0) != (config.window_page_count > 0))
    return bad("window and window_page_count must be 0 both or neither");
  if (config.window_step < 1) return bad("window_step " + range(config.window_step) + "at least 1");
  if (config.wait_threshold < 1)
    return bad("wait_threshold " + range(config.wait_threshold) + "at least 1");
  if (config.state_grid < 1) return bad("state_grid " + range(config.state_grid) + "at least 1");
  if (config.page_count > 0 && config.page_bytes == 0) return bad("page_bytes must be at least 1");
  if (config.window > 0 && config.window_page_bytes == 0)
    return bad("window_page_bytes must be at least 1");
  if (config.row_count > 0 && config.row_bytes == 0) return bad("row_bytes must be at least 1");
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
