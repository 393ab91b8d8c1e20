#pragma once
// What is behind a Lease. Its page table holds a pinned reference for every
// page index that was reserved, its window table for those from the window
// before computed() on; everything is given back by the destructor.

#include <optional>
#include <span>
#include <vector>

#include "cache/cache.h"
#include "cache/cache_impl.h"

namespace stemma {

class LeaseState {
 public:
  // Pins the path to `node` up to `matched` and holds the checkpoint at `hit`
  // (0: none) and the pages it shares. The cache's list of leases has it from
  // now on.
  LeaseState(CacheImpl& cache, const AcquireRequest& request, Lookup lookup, NodeId node,
             Depth matched, Depth hit);
  ~LeaseState();
  LeaseState(const LeaseState&) = delete;
  LeaseState& operator=(const LeaseState&) = delete;

  // Pages that the prompt needs beyond the shared ones, and rows that it needs
  // to run.
  std::size_t missing_pages() const;
  std::size_t missing_window_pages() const;
  std::size_t missing_rows() const;
  // Takes these, which must be free or evictable, marks what is reused as used,
  // and plans the snapshots.
  void start(std::span<const Depth> message_ends);

  CacheImpl& cache() const { return cache_; }

  NamespaceId ns() const { return ns_; }
  const Lookup& lookup() const { return lookup_; }
  Depth hit() const { return hit_; }
  Depth computed() const { return computed_; }
  Depth kv_write_from() const { return kv_write_from_; }
  std::span<const Token> tokens() const { return tokens_; }
  std::span<const PageId> pages() const { return table_.ids(); }
  WindowPages window_pages() const { return {window_table_.first(), window_table_.ids()}; }
  std::optional<RowId> state_row() const;
  const RestorePlan& restore_plan() const { return restore_plan_; }
  bool in_prompt() const { return computed_ < prompt_length_; }

  // The deepest depth in (computed, limit] at which the plan takes a
  // checkpoint; 0 if there is none.
  Depth planned_depth(Depth limit) const;
  // Plans a checkpoint where another prompt branches off, in (computed, prompt
  // length].
  void plan_branch(Depth depth);

  void restored();
  void append(Token token) { tokens_.push_back(token); }
  bool reserve(Depth depth);
  std::span<const LeaseMark> prepare_marks(Depth to);
  void publish(Depth to);
  void advance(Depth to);
  void finish();

  LeaseView view() const { return {pin_.node, pin_.depth, holdings_}; }
  // The text of the first broken invariant of this lease alone.
  std::optional<std::string> verify() const;

 private:
  void release_sources();
  bool reserve_pages(Depth depth);
  // The step to `to` is done; nothing of it is in the tree yet.
  void step_done(Depth to);
  // All that is computed. Returns the node that covers it.
  NodeId put_into_tree();
  std::optional<RowRef> row_for(const PlannedMark& mark);
  void take_spare();
  // Gives back all rows kept for marks; false if there are none.
  bool give_up_marks();

  CacheImpl& cache_;
  const NamespaceId ns_;
  std::vector<Token> tokens_;
  const Depth prompt_length_;
  const Lookup lookup_;
  const Retention retention_;
  const Depth hit_;
  const Depth kv_write_from_;
  Depth computed_;
  Pin pin_;
  PageTable table_;
  WindowTable window_table_;
  StateRows rows_;
  std::vector<Holding*> holdings_;  // those of these three that the model has

  RestorePlan restore_plan_;
  bool restored_ = false;
  std::vector<PlannedMark> plan_;       // above computed_, increasing
  std::vector<LeaseMark> lease_marks_;  // rows_.prepared, as the engine sees it
};

}  // namespace stemma
