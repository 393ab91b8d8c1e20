// Room for pages, window pages and rows: free slots first, then other pools' free memory, then what
// the policy gives up.

#include <algorithm>
#include <cassert>

#include "cache/cache_impl.h"

namespace stemma {

bool CacheImpl::budget_fits(const Demand& demand) const {
  if (!budget_) return true;
  std::uint64_t bytes = 0;
  if (kv_) bytes += (kv_->pool().pinned() + demand.pages) * config_.page_bytes;
  if (window_)
    bytes += (window_->pool().pinned() + demand.window_pages) * config_.window_page_bytes;
  if (states_) bytes += (states_->pool().pinned() + demand.rows) * config_.row_bytes;
  return bytes <= budget_->capacity();
}

bool CacheImpl::cool_other(EntryKind kind) {
  if (kv_ && kv_kind_ != kind) {
    if (const auto page = kv_->pool().cool()) {
      cooled_.pages.push_back(*page);
      return true;
    }
  }
  if (window_ && window_kind_ != kind) {
    if (const auto page = window_->pool().cool()) {
      cooled_.window_pages.push_back(*page);
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
  const std::uint32_t used = kv_ ? kv_->pool().evictable() : 0;
  components_[victim.kind]->evict(victim.slot, wanted);
  if (kv_) counters_.evicted_pages += used - kv_->pool().evictable();
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
    // Only of a tail of KV can more than one slot be had.
    const std::uint64_t theirs = victim->kind == kind || !kv_ || victim->kind != kv_kind_
                                     ? wanted
                                     : (bytes + config_.page_bytes - 1) / config_.page_bytes;
    evict(*victim, static_cast<std::uint32_t>(std::min<std::uint64_t>(theirs, 0xFFFFFFFF)));
  }
  return true;
}

template <class Pool, class Table>
bool CacheImpl::take_into(Table& table, Pool& pool, EntryKind kind, std::size_t count,
                          const Demand& demand) {
  if (count == 0) return true;
  if (count > obtainable(pool) || !budget_fits(demand)) return false;
  [[maybe_unused]] const bool available = make_available(pool, kind, count);
  assert(available);
  for (std::size_t i = 0; i < count; ++i) table.push_back(std::move(*pool.take()));
  return true;
}

bool CacheImpl::take_pages(std::size_t count, PageTable& table) {
  return take_into(table, kv_->pool(), kv_kind_, count, {.pages = count});
}

bool CacheImpl::take_pages(std::size_t count, WindowTable& table) {
  return take_into(table, window_->pool(), window_kind_, count, {.window_pages = count});
}

std::optional<RowRef> CacheImpl::take_row() {
  SlotPool<RowId>& pool = states_->pool();
  if (obtainable(pool) == 0 || !budget_fits({.rows = 1})) return std::nullopt;
  [[maybe_unused]] const bool available = make_available(pool, state_kind_, 1);
  assert(available);
  return pool.take();
}

std::optional<RowRef> CacheImpl::row_for_mark(NodeId node, const PlannedMark& mark,
                                              const Retention& retention) {
  SlotPool<RowId>& pool = states_->pool();
  if (mark.source == MarkSource::periodic) {
    if (pool.available() == 0 || (pool.available() - 1) * 4 < pool.capacity()) return std::nullopt;
    return pool.take();
  }
  if (!budget_fits({.rows = 1})) return std::nullopt;
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
  while (const auto victim = policy_->victim(kAll)) evict(*victim, 0xFFFFFFFF);
  forget_empty_namespaces();
  check();
}

}  // namespace stemma
