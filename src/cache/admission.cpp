// Who gets a lease and who waits.

#include <algorithm>
#include <utility>

#include "cache/cache_impl.h"
#include "cache/lease_state.h"

namespace stemma {

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
  const std::size_t missing_window = lease->missing_window_pages();
  // Alone, a sequence does without a spare row.
  const std::size_t rows =
      leases_.size() == 1 ? std::min<std::size_t>(1, lease->missing_rows()) : lease->missing_rows();
  if (kv_ && missing > obtainable(kv_->pool())) return WaitReason::no_pages;
  if (window_ && missing_window > obtainable(window_->pool())) return WaitReason::no_pages;
  if (states_ && rows > obtainable(states_->pool())) return WaitReason::no_rows;
  if (!budget_fits({missing, missing_window, rows})) return WaitReason::no_pages;
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
  // its page, then its window page, then its row.
  while (std::holds_alternative<WaitReason>(attempt) && leases_.empty()) {
    if (kv_ && std::get<WaitReason>(attempt) == WaitReason::no_pages &&
        kv_->whole_pages(matched) < matched) {
      matched = kv_->whole_pages(matched);
      hit = std::min(hit, matched);
      hit = tree_.restorable(tree_.covering(found.node, hit), hit);
    } else if (window_ && std::get<WaitReason>(attempt) == WaitReason::no_pages &&
               hit % config_.page_size != 0) {
      hit -= hit % config_.page_size;
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
  const std::uint64_t window_pages = window_ ? window_->most_pages(length, config_.window_step) : 0;
  if (pages > config_.page_count || window_pages > config_.window_page_count) return false;
  if (!budget_) return true;
  return pages * config_.page_bytes + window_pages * config_.window_page_bytes +
             (states_ ? config_.row_bytes : 0) <=
         budget_->capacity();
}

}  // namespace stemma
