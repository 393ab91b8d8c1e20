#pragma once
// Recurrent states: checkpoints at single depths of paths, each in a row.
//
// A node's checkpoints lie at depths in (start, end], at most one a depth.
// There are no tombstones: a node without checkpoints is an ordinary node. A
// row in the tree belongs to one checkpoint.
//
// An entry is a checkpoint that no lease restores from; its slot is the row.
//
// Threads: none; the cache's thread owns it.

#include <optional>
#include <span>
#include <vector>

#include "cache/chunked.h"
#include "cache/component.h"
#include "cache/cost_model.h"
#include "cache/run.h"
#include "cache/slot_pool.h"
#include "cache/snapshot_plan.h"
#include "cache/tree.h"

namespace stemma {

using RowRef = SlotPool<RowId>::Ref;

// A lease's rows, all pinned. A mark passes from `prepared` (a row is reserved,
// the step will write it) to `written` (the step is done) to the tree.
class StateRows final : public Holding {
 public:
  struct Mark {
    Depth depth;
    MarkSource source;
    RowRef row;
  };

  std::optional<RowRef> running;  // the state that the sequence updates in place
  std::optional<RowRef> source;   // what it is restored from
  std::vector<RowRef> spare;      // reserved for marks
  std::vector<Mark> prepared;
  std::vector<Mark> written;
};

class StateComponent final : public Component {
 public:
  StateComponent(Tree& tree, EvictionPolicy& policy, EntryKind kind, const CostModel& cost,
                 std::uint32_t rows, std::uint64_t row_bytes, ByteBudget* budget);
  ~StateComponent() override;

  SlotPool<RowId>& pool() { return pool_; }
  const SlotPool<RowId>& pool() const { return pool_; }

  // The deepest checkpoint on the path to `node` at a depth <= `limit`. O(nodes
  // passed + log checkpoints of a node).
  std::optional<RowId> deepest(NodeId node, Depth limit) const;
  // Whether a request that goes on from it goes on from where another ended.
  bool at_path_end(RowId row) const;
  std::uint16_t turn(RowId row) const { return checkpoints_[index_of(row)].turn; }
  Depth depth(RowId row) const { return checkpoints_[index_of(row)].depth; }

  // Depths in (from, to] on the path to `node` that have a checkpoint.
  // Increasing. O(nodes passed + result).
  std::vector<Depth> depths(NodeId node, Depth from, Depth to) const;
  // The deepest depth in (from, to] on the path to `node` that had one until it
  // was evicted; 0 if none is remembered. O(nodes passed).
  Depth evicted_depth(NodeId node, Depth from, Depth to) const;

  // Adds a checkpoint on the path to `node`; drops the row if that depth has
  // one or is 0.
  void attach(NodeId node, Depth depth, MarkSource source, std::uint16_t turn, RowRef row);

  // A request goes on from a checkpoint.
  void use(RowId row, const Retention& retention);
  // A pinned reference to a checkpoint's row: it is no entry until it is given
  // back. The checkpoint may be gone by then.
  RowRef hold(RowId row);
  void give_back(RowRef row);

  // What a new checkpoint would be worth to the policy.
  EntryInfo candidate(NodeId node, Depth depth, MarkSource source) const;

  std::uint64_t checkpoints() const { return count_; }
  std::uint64_t dropped() const { return dropped_; }  // since start, for whatever reason

  void added(NodeId node, Holding& from) override;
  void grown(NodeId, Depth, Holding&) override {}
  void split(NodeId upper, NodeId node) override;
  void cutting(NodeId leaf, Depth end) override;
  void removing(NodeId leaf) override;
  void changed(NodeId node) override;
  Depth settle(NodeId, Depth, Depth to, Holding&) override { return to; }
  Depth restorable(NodeId node, Depth limit) const override;
  bool empty(NodeId node) const override { return counts_[index_of(node)] == 0; }
  std::optional<EntryInfo> entry_at(NodeId node, Depth depth) const override;
  double bytes_above(NodeId leaf, Depth from) const override;
  void evict(std::uint32_t slot, std::uint32_t wanted) override;
  std::optional<std::string> verify(std::span<const LeaseView> leases) const override;
  std::size_t metadata_bytes() const override;

 private:
  struct Checkpoint {
    NodeId node = kNoNode;  // none: the row is not in the tree
    Depth depth = 0;
    std::uint64_t last_used = 0;
    std::uint32_t uses = 0;
    std::uint16_t turn = 1;
    MarkSource source = MarkSource::periodic;
    std::uint8_t priority = kDefaultPriority;
    float retain_until = 0;
  };

  std::span<const RowId> rows(NodeId node) const {
    return {rows_[index_of(node)].data(), counts_[index_of(node)]};
  }
  // Number of the node's checkpoints at depths <= `depth`.
  std::size_t up_to(NodeId node, Depth depth) const;
  bool held(RowId row) const { return pool_.use(row).pins > 0; }
  EntryInfo info(RowId row) const;
  void put(RowId row);
  void make_room(NodeId node);
  // Drops the node's checkpoints from place `from` on.
  void drop_from(NodeId node, std::size_t from);

  Tree& tree_;
  EvictionPolicy& policy_;
  const EntryKind kind_;
  const CostModel cost_;
  SlotPool<RowId> pool_;
  std::vector<Checkpoint> checkpoints_;  // by row
  Chunked<Run<RowId>> rows_;             // by node; increasing depths; unpinned references
  Chunked<std::uint32_t> counts_;        // by node
  // By node: the latest that was evicted, which is the one above what is left where paths lose
  // their ends first; 0 = none.
  Chunked<Depth> evicted_;
  std::uint64_t count_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace stemma
