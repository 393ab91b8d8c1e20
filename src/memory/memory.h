#pragma once
// The bytes behind the cache's ids: sizes a model's pages and state rows to one budget and carries
// out the copies that a lease asks for.

#include <cstdint>
#include <memory>
#include <string>

#include "cache/cache.h"
#include "compute/device.h"
#include "core/result.h"

namespace stemma {

struct MemoryBudget {
  std::size_t bytes;            // for pages and rows together
  std::uint32_t max_sequences;  // running at once, each in a state row; with fewer rows, fewer run
  Depth context_length;         // at least one sequence of this length must fit
  // Of the budget for state rows, 0 to 1, as far as one sequence then fits; negative: pages and
  // rows share the budget, or, where they cannot, by the rule in memory_split.cpp.
  double state_share;
  // The device's (Device::release_granularity). 0: what one slot no longer needs cannot go to
  // another kind.
  std::size_t release_granularity = 0;
  // The system is to give all of it at the start.
  bool prefault = false;
};

struct MemorySplit {
  std::uint32_t page_count;
  std::uint32_t row_count;
  std::size_t page_bytes;   // of one page
  std::size_t row_bytes;    // of one row
  std::string explanation;  // one line: what was chosen and why
  // Pages and rows together may take so many bytes, and their counts are how many of each there can
  // be at most; 0: there is room for all of both.
  std::size_t shared_bytes = 0;
  std::size_t slot_alignment = 64;  // for the layouts
  // So many of the first pages and rows take their memory from the system at the start: all, or, of a shared budget, halves.
  std::uint32_t warm_pages = 0;
  std::uint32_t warm_rows = 0;
};

// The split of a budget. Errors: `memory_budget_too_small` (says how much is needed). O(1).
Result<MemorySplit> split_memory(const MemoryBudget& budget, const KvLayout& kv,
                                 const StateLayout& state);

// Owns the buffers. One thread.
class Memory {
 public:
  // Buffers of the split's counts and alignment, also where one is 0. Errors: `out_of_memory`.
  static Result<std::unique_ptr<Memory>> create(Device& device, const KvLayout& kv,
                                                const StateLayout& state, const MemorySplit& split);

  // Makes the copies of a lease's restore plan and tells the lease.
  void restore(Lease& lease);

  // Gives the memory of slots back that lost it to others. Must come between the cache's giving
  // such a slot out again and the first write to it: before restores and before each step.
  void release(const Cache::Cooled& cooled);

  PageBuffer& pages() { return *pages_; }
  StateBuffer& states() { return *states_; }

 private:
  Memory(std::unique_ptr<PageBuffer> pages, std::unique_ptr<StateBuffer> states);
  std::unique_ptr<PageBuffer> pages_;
  std::unique_ptr<StateBuffer> states_;
};

}  // namespace stemma
