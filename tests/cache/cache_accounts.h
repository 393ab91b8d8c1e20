#pragma once
// What a cache's numbers must be, counted from outside: which pages, window pages and rows the
// running sequences can see are the pinned ones, and a slot is resident from when somebody got it
// until it was cooled.
//
// Costs: O(slots that a sequence has) a change, O(1) a comparison.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulated_engine.h"

namespace stemma {

class CacheAccounts {
 public:
  explicit CacheAccounts(const CacheConfig& config)
      : config_(config),
        pages_(config.page_count),
        window_pages_(config.window_page_count),
        rows_(config.row_count) {}

  // A sequence, by a number of the caller's, is new or has gone on.
  void update(std::uint64_t number, const SimulatedEngine::Sequence& sequence) {
    Held now;
    const Lease& lease = sequence.lease;
    for (const PageId page : lease.pages()) now.pages.push_back(index_of(page));
    for (const WindowPageId page : lease.window_pages().ids)
      now.window_pages.push_back(index_of(page));
    if (const auto row = lease.state_row()) now.rows.push_back(index_of(*row));
    if (!sequence.restored) {
      if (const auto& copy = lease.restore_plan().page_copy)
        now.pages.push_back(index_of(copy->from));
      if (const auto& copy = lease.restore_plan().window_copy)
        now.window_pages.push_back(index_of(copy->from));
      if (const auto& row = lease.restore_plan().state_from) now.rows.push_back(index_of(*row));
    }
    for (const LeaseMark& mark : sequence.prepared) now.rows.push_back(index_of(mark.row));
    for (const LeaseMark& mark : sequence.written) now.rows.push_back(index_of(mark.row));
    for (const auto slot : now.pages) pages_.pin(slot);
    for (const auto slot : now.window_pages) window_pages_.pin(slot);
    for (const auto slot : now.rows) rows_.pin(slot);
    drop(number);
    held_[number] = std::move(now);
  }
  void end(std::uint64_t number) {
    drop(number);
    held_.erase(number);
  }
  void cooled(const Cache::Cooled& cooled) {
    for (const PageId page : cooled.pages) pages_.cool(index_of(page));
    for (const WindowPageId page : cooled.window_pages) window_pages_.cool(index_of(page));
    for (const RowId row : cooled.rows) rows_.cool(index_of(row));
  }

  // The first number that is wrong.
  std::optional<std::string> differ(const CacheStats& stats) const {
    // A row that is reserved for marks is not seen until it is used.
    const bool spare = config_.strategy == SchedulerStrategy::extra_buffer;
    const std::uint32_t unseen = spare ? static_cast<std::uint32_t>(held_.size()) : 0;
    if (stats.leases != held_.size()) return "leases: " + std::to_string(stats.leases);
    if (auto wrong = compare("pages", stats.pages, pages_, 0)) return wrong;
    if (auto wrong = compare("window pages", stats.window_pages, window_pages_, 0)) return wrong;
    if (auto wrong = compare("rows", stats.rows, rows_, unseen)) return wrong;
    if (config_.budget_bytes == 0) return std::nullopt;
    if (stats.budget_free_bytes > config_.budget_bytes) return "the budget is overdrawn";
    const std::uint64_t resident = pages_.resident * config_.page_bytes +
                                   window_pages_.resident * config_.window_page_bytes +
                                   rows_.resident * config_.row_bytes;
    const std::uint64_t used = config_.budget_bytes - stats.budget_free_bytes;
    if (resident > used || (!spare && resident < used))
      return "resident bytes are " + std::to_string(resident) + ", counted " + std::to_string(used);
    return std::nullopt;
  }

 private:
  struct Held {
    std::vector<std::uint32_t> pages;
    std::vector<std::uint32_t> window_pages;
    std::vector<std::uint32_t> rows;
  };
  struct Slots {
    explicit Slots(std::uint32_t count) : pins(count), is_resident(count) {}
    void pin(std::uint32_t slot) {
      pinned += pins[slot]++ == 0;
      resident += !is_resident[slot];
      is_resident[slot] = true;
    }
    void unpin(std::uint32_t slot) { pinned -= --pins[slot] == 0; }
    // One that was taken again meanwhile is resident again.
    void cool(std::uint32_t slot) {
      if (pins[slot] > 0 || !is_resident[slot]) return;
      is_resident[slot] = false;
      --resident;
    }
    std::vector<std::uint32_t> pins;
    std::vector<bool> is_resident;
    std::uint32_t pinned = 0;
    std::uint64_t resident = 0;
  };

  static std::optional<std::string> compare(const char* name, const CacheStats::Pool& pool,
                                            const Slots& slots, std::uint32_t unseen) {
    if (pool.free + pool.evictable + pool.pinned == pool.capacity &&
        pool.capacity == slots.pins.size() && pool.pinned >= slots.pinned &&
        pool.pinned <= slots.pinned + unseen)
      return std::nullopt;
    return std::string(name) + ": free " + std::to_string(pool.free) + ", evictable " +
           std::to_string(pool.evictable) + ", pinned " + std::to_string(pool.pinned) + " of " +
           std::to_string(pool.capacity) + "; sequences have " + std::to_string(slots.pinned);
  }
  void drop(std::uint64_t number) {
    const auto held = held_.find(number);
    if (held == held_.end()) return;
    for (const auto slot : held->second.pages) pages_.unpin(slot);
    for (const auto slot : held->second.window_pages) window_pages_.unpin(slot);
    for (const auto slot : held->second.rows) rows_.unpin(slot);
  }

  const CacheConfig config_;
  Slots pages_;
  Slots window_pages_;
  Slots rows_;
  std::unordered_map<std::uint64_t, Held> held_;
};

}  // namespace stemma
