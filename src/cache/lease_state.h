#pragma once
// What is behind a Lease. Its page table holds a pinned reference for every page index that was
// reserved: pages of the tree wholly below the pin, its own above. Everything is given back by the
// destructor.
//
// Marks pass from plan_ (wanted) to prepared_ (a row is reserved, the step will write it) to
// written_ (the step is done) to the tree.

#include <optional>
#include <span>
#include <vector>

#include "cache/cache.h"
#include "cache/cache_impl.h"
#include "cache/tree.h"

namespace stemma {

class LeaseState {
 public:
  // Pins the path to `node` up to `matched` and holds the checkpoint at `hit` (0: none) and the
  // pages it shares. The cache's list of leases has it from now on.
  LeaseState(CacheImpl& cache, const AcquireRequest& request, Lookup lookup, Node& node,
             Depth matched, Depth hit);
  ~LeaseState();
  LeaseState(const LeaseState&) = delete;
  LeaseState& operator=(const LeaseState&) = delete;

  // Pages that the prompt needs beyond the shared ones.
  std::size_t missing_pages() const;
  // Takes these and a state row, which must be free or evictable, marks what is reused as used, and
  // plans the snapshots.
  void start(std::span<const Depth> message_ends);

  CacheImpl& cache() const { return cache_; }

  NamespaceId ns() const { return ns_; }
  const Lookup& lookup() const { return lookup_; }
  Depth hit() const { return hit_; }
  Depth computed() const { return computed_; }
  Depth kv_write_from() const { return kv_write_from_; }
  std::span<const Token> tokens() const { return tokens_; }
  std::span<const PageId> pages() const { return page_ids_; }
  std::optional<RowId> state_row() const;
  const RestorePlan& restore_plan() const { return restore_plan_; }
  bool in_prompt() const { return computed_ < prompt_length_; }

  // The deepest depth in (computed, limit] at which the plan takes a checkpoint; 0 if there is
  // none.
  Depth planned_depth(Depth limit) const;
  // Plans a checkpoint where another prompt branches off, in (computed, prompt length].
  void plan_branch(Depth depth);

  void restored();
  void append(Token token);
  bool reserve(Depth depth);
  std::span<const LeaseMark> prepare_marks(Depth to);
  void publish(Depth to);
  void advance(Depth to);
  void finish();

  // Adds all references this lease holds, by slot.
  void count_references(Tree::References& references) const;
  // The text of the first broken invariant of this lease alone.
  std::optional<std::string> verify() const;

 private:
  struct RowMark {
    Depth depth;
    RowRef row;
  };

  void release_sources();
  Node& put_into_tree(Depth to);
  void list_page_ids(std::size_t first);

  CacheImpl& cache_;
  const NamespaceId ns_;
  std::vector<Token> tokens_;
  const Depth prompt_length_;
  const Lookup lookup_;
  const Depth hit_;
  const Depth kv_write_from_;
  Depth computed_;
  Pin pin_;
  std::vector<PageRef> pages_;
  std::vector<PageId> page_ids_;  // of pages_
  std::optional<RowRef> row_;

  RestorePlan restore_plan_;
  bool restored_ = false;
  std::optional<PageRef> page_source_;
  std::optional<RowRef> row_source_;
  EntryId source_entry_{};  // of row_source_

  std::vector<PlannedMark> plan_;  // above computed_, increasing
  std::vector<RowMark> prepared_;
  std::vector<LeaseMark> lease_marks_;  // prepared_, as the engine sees it
  std::vector<RowMark> written_;
};

}  // namespace stemma
