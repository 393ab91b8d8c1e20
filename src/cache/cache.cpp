// Lookup, admission and eviction on behalf of leases; Cache forwards to CacheImpl.

#include <algorithm>
#include <cassert>
#include <limits>

#include "cache/cache_impl.h"
#include "cache/lease_state.h"

namespace stemma {

CacheImpl::CacheImpl(const CacheConfig& config, std::unique_ptr<EvictionPolicy> tails,
                     std::unique_ptr<EvictionPolicy> checkpoints)
    : config_(config),
      pages_(config.page_count),
      rows_(config.row_count),
      tree_(config.page_count > 0 ? config.page_size : 0, std::move(tails),
            std::move(checkpoints)) {}

NamespaceId CacheImpl::namespace_for(std::string_view key) {
  const auto known = namespaces_.find(key);
  if (known != namespaces_.end()) return known->second;
  const auto id = static_cast<NamespaceId>(roots_.size());
  namespaces_.emplace(key, id);
  roots_.push_back(&tree_.add_root());
  return id;
}

Depth CacheImpl::usable_depth(Node& node, Depth limit) const {
  if (!has_rows()) return limit;
  const Checkpoint* checkpoint = Tree::deepest_checkpoint(node, limit);
  return checkpoint ? checkpoint->depth : 0;
}

CacheImpl::Found CacheImpl::find(NamespaceId ns, std::span<const Token> tokens) const {
  assert(!tokens.empty());
  const Tree::Match match = tree_.match(*roots_[index_of(ns)], tokens);
  const Depth limit = std::min(match.matched, static_cast<Depth>(tokens.size()) - 1);
  const Depth usable = usable_depth(*match.node, limit);
  ReuseLimit reason = ReuseLimit::no_such_prefix;
  if (usable == static_cast<Depth>(tokens.size()) - 1) {
    reason = ReuseLimit::whole_prompt;
  } else if (usable < limit) {
    reason = ReuseLimit::kv_without_state;
  }
  return {match.node, {match.matched, usable, reason}};
}

Lookup CacheImpl::lookup(NamespaceId ns, std::span<const Token> tokens) const {
  return find(ns, tokens).lookup;
}

bool CacheImpl::wait_for_prefix(const AcquireRequest& request, Depth usable) {
  const bool branches = config_.snapshot.branch_snapshot;
  LeaseState* nearest = nullptr;
  Depth parting = 0;
  for (LeaseState* lease : leases_) {
    if (lease->ns() != request.ns || !lease->in_prompt()) continue;
    const Depth common =
        common_prefix(request.tokens.first(request.tokens.size() - 1), lease->tokens());
    if (common <= std::max(lease->computed(), parting)) continue;
    const Depth restorable = branches || !has_rows() ? common : lease->planned_depth(common);
    if (restorable - usable < config_.wait_threshold) continue;
    nearest = lease;
    parting = common;
  }
  if (nearest && branches && has_rows()) nearest->plan_branch(parting);
  return nearest != nullptr;
}

std::variant<std::unique_ptr<LeaseState>, WaitReason> CacheImpl::reserve(
    const AcquireRequest& request, const Found& found, Depth matched, Depth hit) {
  auto lease = std::make_unique<LeaseState>(*this, request, found.lookup,
                                            Tree::covering(*found.node, matched), matched, hit);
  if (lease->missing_pages() > pages_.free() + pages_.evictable()) return WaitReason::no_pages;
  if (has_rows() && rows_.free() + rows_.evictable() == 0) return WaitReason::no_rows;
  lease->start(request.message_ends);
  return lease;
}

std::variant<Lease, WaitReason> CacheImpl::acquire(const AcquireRequest& request) {
  const Found found = find(request.ns, request.tokens);
  if (wait_for_prefix(request, found.lookup.usable)) {
    ++counters_.waits_in_flight;
    return WaitReason::prefix_in_flight;
  }

  Depth matched = found.lookup.matched;
  Depth hit = found.lookup.usable;
  auto attempt = reserve(request, found, matched, hit);
  // With no other lease to wait for, give up what a copy's source would take: its page, then its
  // row.
  while (std::holds_alternative<WaitReason>(attempt) && leases_.empty()) {
    if (std::get<WaitReason>(attempt) == WaitReason::no_pages &&
        tree_.whole_pages(matched) < matched) {
      matched = tree_.whole_pages(matched);
      hit = usable_depth(*found.node, std::min(hit, matched));
    } else if (std::get<WaitReason>(attempt) == WaitReason::no_rows && hit > 0) {
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

std::size_t CacheImpl::pages_for(Depth length) const {
  if (!has_pages()) return 0;
  return (static_cast<std::size_t>(length) + config_.page_size - 1) / config_.page_size;
}

bool CacheImpl::fits(Depth length) const { return pages_for(length) <= config_.page_count; }

bool CacheImpl::take_pages(std::size_t count, std::vector<PageRef>& table) {
  if (count > std::size_t{pages_.free()} + pages_.evictable()) return false;
  const std::uint32_t free_before = pages_.free();
  while (pages_.free() < count) {
    [[maybe_unused]] const bool evicted =
        tree_.evict_tail(static_cast<std::uint32_t>(count) - pages_.free());
    assert(evicted);
  }
  counters_.evicted_pages += pages_.free() - free_before;
  for (std::size_t i = 0; i < count; ++i) table.push_back(std::move(*pages_.take()));
  return true;
}

std::optional<RowRef> CacheImpl::take_row() {
  if (rows_.free() == 0) tree_.evict_checkpoint();
  return rows_.take();
}

std::optional<RowRef> CacheImpl::row_for_mark(MarkSource source) {
  if (source >= MarkSource::message_end) return take_row();
  if (rows_.free() == 0 || std::uint64_t{rows_.free() - 1} * 4 < rows_.capacity())
    return std::nullopt;
  return rows_.take();
}

void CacheImpl::count_marks(std::size_t taken, std::size_t skipped) {
  counters_.marks_taken += taken;
  counters_.marks_skipped += skipped;
}

void CacheImpl::count_lease(const LeaseState& lease) {
  ++counters_.lookups;
  counters_.hit_tokens += lease.hit();
  counters_.prompt_tokens += lease.tokens().size();
  switch (lease.lookup().limit) {
    case ReuseLimit::whole_prompt:
      ++counters_.limit_whole_prompt;
      break;
    case ReuseLimit::no_such_prefix:
      ++counters_.limit_no_such_prefix;
      break;
    case ReuseLimit::kv_without_state:
      ++counters_.limit_kv_without_state;
      break;
  }
}

void CacheImpl::flush() {
  const std::uint32_t free_before = pages_.free();
  while (tree_.evict_checkpoint()) {
  }
  while (tree_.evict_tail(config_.page_count + 1)) {
  }
  counters_.evicted_pages += pages_.free() - free_before;
  check();
}

CacheStats CacheImpl::stats() const {
  CacheStats stats = counters_;
  stats.pages = {pages_.capacity(), pages_.free(), pages_.evictable(), pages_.pinned()};
  stats.rows = {rows_.capacity(), rows_.free(), rows_.evictable(), rows_.pinned()};
  stats.nodes = tree_.counts().nodes;
  stats.cached_tokens = tree_.counts().tokens;
  stats.checkpoints = tree_.counts().checkpoints;
  stats.evicted_checkpoints = tree_.counts().dropped_checkpoints;
  stats.leases = leases_.size();
  return stats;
}

Cache::Cache(std::unique_ptr<CacheImpl> impl) : impl_(std::move(impl)) {}
Cache::~Cache() = default;

Result<std::unique_ptr<Cache>> Cache::create(const CacheConfig& config) {
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
  if (snapshot.periodic_interval < 0) {
    return bad("periodic_interval " + range(snapshot.periodic_interval) +
               "at least 1, or 0 for none");
  }
  if (snapshot.idle_interval < 0) {
    return bad("idle_interval " + range(snapshot.idle_interval) +
               "at least 1, or 0 for none of its own");
  }
  STEMMA_TRY(auto tails, make_eviction_policy(config.eviction));
  STEMMA_TRY(auto checkpoints, make_eviction_policy(config.eviction));
  return std::unique_ptr<Cache>(
      new Cache(std::make_unique<CacheImpl>(config, std::move(tails), std::move(checkpoints))));
}

NamespaceId Cache::namespace_for(std::string_view key) { return impl_->namespace_for(key); }
Lookup Cache::lookup(NamespaceId ns, std::span<const Token> tokens) const {
  return impl_->lookup(ns, tokens);
}
std::variant<Lease, WaitReason> Cache::acquire(const AcquireRequest& request) {
  return impl_->acquire(request);
}
bool Cache::fits(Depth length) const { return impl_->fits(length); }
void Cache::flush() { impl_->flush(); }
CacheStats Cache::stats() const { return impl_->stats(); }
std::optional<std::string> Cache::verify() const { return impl_->verify(); }

}  // namespace stemma
