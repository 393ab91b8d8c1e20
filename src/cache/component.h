#pragma once
// One kind of thing that a model needs of its past and that the cache keeps
// along paths: the KV of all tokens, the KV of a sliding window, recurrent
// states. A model has some of them; the tree tells each what happens to nodes,
// and knows none by name. A new kind is a class beside kv_component.h.
//
// A hit is the deepest depth that every component can restore
// (Tree::restorable).
//
// Components are told in their order in the cache, and may have entries
// described anew meanwhile, which asks all components: one whose answers need to
// know of a node's growth stands before those that move pins then (KV).
//
// Threads: none; the cache's thread owns all.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cache/eviction_policy.h"
#include "cache/node_store.h"

namespace stemma {

// What one lease has of one component: pages by index, a state row, ... Each
// component knows its own.
class Holding {
 public:
  virtual ~Holding() = default;
};

// A live lease, for checks.
struct LeaseView {
  NodeId node;  // its pin
  Depth depth;
  std::span<Holding* const> holdings;  // in order of the components
};

class Component {
 public:
  virtual ~Component() = default;

  // ---- What happens to nodes
  // A node is new, and `from` has what belongs to its depths.
  virtual void added(NodeId node, Holding& from) = 0;
  // A leaf that ended at `old_end` covers more.
  virtual void grown(NodeId leaf, Depth old_end, Holding& from) = 0;
  // `node` was cut in two; `upper` is new, the depths above upper.end stay with
  // `node`.
  virtual void split(NodeId upper, NodeId node) = 0;
  // A leaf is about to end at `end`, or to go altogether; `evicted` if to make
  // room.
  virtual void cutting(NodeId leaf, Depth end) = 0;
  virtual void removing(NodeId leaf) = 0;
  // The node's pins, children, uses, or what another component keeps there, may
  // have changed.
  virtual void changed(NodeId node) = 0;
  // The node's tokens up to `to` are also those of a lease: puts what the tree
  // has into the place of the lease's own. Returns how deep the lease may be
  // pinned, at most `to`.
  virtual Depth settle(NodeId node, Depth pinned, Depth to, Holding& holding) = 0;

  // ---- What can be reused
  // The deepest depth <= limit on the path to `node` (limit <= node.end) that
  // this component can restore; 0 always can.
  virtual Depth restorable(NodeId node, Depth limit) const = 0;
  // Whether a node may go if it is an unpinned leaf.
  virtual bool empty(NodeId node) const = 0;

  // How the entry at exactly `depth` on the path to `node` is used, if this component has one
  // there.
  virtual std::optional<EntryInfo> entry_at(NodeId node, Depth depth) const = 0;

  // ---- Eviction
  // Bytes that would be freed here if a leaf, or a node as if it were one, lost
  // its tokens from `from` (>= its start) on.
  virtual double bytes_above(NodeId leaf, Depth from) const = 0;
  // Gives up an entry of this component, or as much of it as frees `wanted`
  // slots. Makes progress whenever its policy names the entry.
  virtual void evict(std::uint32_t slot, std::uint32_t wanted) = 0;

  // The first broken invariant of this component, given all live leases.
  // O(everything).
  virtual std::optional<std::string> verify(std::span<const LeaseView> leases) const = 0;
  // Beside what the pools themselves take.
  virtual std::size_t metadata_bytes() const = 0;
};

}  // namespace stemma
