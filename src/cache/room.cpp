// Room for pages and rows: free slots first, then other pools' free memory, then what the policy
// gives up.

#include <algorithm>
#include <cassert>

#include "cache/cache_impl.h"

namespace stemma {

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

}  // namespace stemma
