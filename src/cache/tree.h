#pragma once
// The prefix tree: which tokens are cached, who is pinned where, and how paths
// are used. What is kept along the paths is the components' affair
// (component.h).
//
// Lookups change nothing but recency. A node is split only by a path that
// leaves it inside; a leaf only shrinks from its end, and only down to where a
// lease is pinned.
//
// Pins. A lease pins one node up to one depth, which pins the path above: an
// inner node stays as long as it has children, so ancestors need no counts.
//
// Threads: none; the cache's thread owns it.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/component.h"
#include "cache/ghosts.h"
#include "cache/node_store.h"
#include "core/ids.h"

namespace stemma {

// What a lease keeps of the tree: `node` covers `depth` (start < depth <= end),
// or is a root and depth is 0.
struct Pin {
  NodeId node = kNoNode;
  Depth depth = 0;
  std::uint16_t turn = 1;  // of its request: EntryInfo::turn
};

// How a request values what it uses.
struct Retention {
  std::uint8_t priority = kDefaultPriority;
  double until = 0;  // seconds on the caller's clock; 0 = always
};

// Number of equal tokens at the start of both. O(result).
Depth common_prefix(std::span<const Token> a, std::span<const Token> b);

class Tree {
 public:
  struct Match {
    NodeId node;    // the deepest that shares a token with the prompt; else the root
    Depth matched;  // tokens shared
  };

  Tree() = default;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // In order of EntryKind, before anything else. They must outlive what they
  // are told.
  void set_components(std::vector<Component*> components) { components_ = std::move(components); }

  const NodeStore& nodes() const { return nodes_; }
  const Node& operator[](NodeId id) const { return nodes_[id]; }

  // A new namespace's root. Only an empty one can be removed. O(1).
  NodeId add_root() { return nodes_.add_root(); }
  bool empty_root(NodeId root) const { return nodes_[root].leaf() && !nodes_[root].pinned; }
  void remove_root(NodeId root) { nodes_.remove(root); }

  // Changes nothing. O(matched).
  Match match(NodeId root, std::span<const Token> tokens) const;

  // The deepest depth <= limit on the path to `node` that all components can
  // restore. O(nodes passed).
  Depth restorable(NodeId node, Depth limit) const;

  // The node on the path to `node` that covers `depth` <= node.end; the root
  // for 0. O(nodes passed).
  NodeId covering(NodeId node, Depth depth) const;

  // Whether the path to `node`, up to `depth`, once went on with `next`
  // (ghosts.h). O(1).
  bool went_on(NodeId node, Depth depth, Token next) const {
    return ghosts_.has(node, nodes_[node].generation, depth, next);
  }

  // Depths in (from, to] on the path to `node` where paths part. Increasing.
  // O(nodes passed).
  std::vector<Depth> forks(NodeId node, Depth from, Depth to) const;

  // A new use of the path to `node`, whose tokens up to `depth` a request goes
  // on from. O(nodes on the path).
  void use(NodeId node, Depth depth, const Retention& retention);
  std::uint64_t clock() const { return clock_; }

  // Sets a pin that is not set; moves one that is to a depth on the same path;
  // removes it. O(log pins of the node).
  void pin(Pin& pin, NodeId node, Depth depth);
  void lower(Pin& pin, Depth depth);
  void unpin(Pin& pin);
  // The deepest depth to which the node itself is pinned; 0 if it is not.
  Depth pinned_to(NodeId node) const;
  // Moves pins of the node that are deeper than `depth` to it.
  void lower_pins(NodeId node, Depth depth);

  // Makes the tree cover `tokens`, of which [0, pin.depth) is the pinned path,
  // with what the holdings (in order of the components) have. Moves the pin as
  // far as they allow. What is new has `retention`. Returns the node that covers
  // depth tokens.size(). O(tokens beyond the pin).
  NodeId extend(Pin& pin, std::span<const Token> tokens, std::span<Holding* const> holdings,
                const Retention& retention);

  // For components: a leaf ends at `end` from now on, or goes; not below its
  // pins.
  void cut(NodeId leaf, Depth end);
  // Removes the node, and then its ancestors, as far as they are unpinned
  // leaves for which no component has any use; `evicted` if that is because
  // something had to go to make room.
  void prune(NodeId node, bool evicted);
  // For components: what they keep at the node changed.
  void changed(NodeId node);

  // How the deepest kind of entry at exactly `depth` on the path to `node` is used.
  std::optional<EntryInfo> entry_at(NodeId node, Depth depth) const;

  // Bytes that would be freed if a leaf, or a node as if it were one, lost its
  // tokens from `from`
  // (>= its start) on.
  double bytes_above(NodeId leaf, Depth from) const;

  std::uint64_t cached_tokens() const { return tokens_; }
  std::size_t metadata_bytes() const { return nodes_.metadata_bytes(); }

  // The text of the first broken rule. O(everything).
  std::optional<std::string> verify() const;

 private:
  // A node that serves several requests has the highest of their priorities.
  static void raise(Node& node, const Retention& retention);
  void set_pin(Pin& pin, NodeId node, Depth depth);
  void take_off(Pin& pin);
  NodeId split(NodeId node, Depth depth);
  void remove(NodeId leaf, bool evicted);

  NodeStore nodes_;
  std::vector<Component*> components_;
  std::unordered_map<NodeId, std::set<std::pair<Depth, Pin*>>> pins_;  // of pinned nodes
  Ghosts ghosts_;
  std::uint64_t tokens_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace stemma
