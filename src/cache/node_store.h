#pragma once
// The nodes of all trees of a cache, by small numbers, and who is whose child.
//
// A node covers the tokens [start, end) of its path; a root covers none. Nodes
// have stable addresses and their ids are reused. Children are found through
// hash tables over (parent, first token), and walked through a list of
// siblings: a node costs 48 bytes, 5 to 7 in a table, and its tokens.
//
// There are many tables, of which each grows alone, so that making a node never
// waits for all nodes to be placed anew.
//
// Threads: none. Costs: O(1) for each call, amortized for those that make
// nodes, which take O(nodes / 1024) at worst.

#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/run.h"
#include "core/ids.h"

namespace stemma {

enum class NodeId : std::uint32_t {};
inline constexpr NodeId kNoNode{0xFFFFFFFF};

struct Node {
  NodeId parent = kNoNode;  // of a root: none
  NodeId first_child = kNoNode;
  NodeId next_sibling = kNoNode;
  NodeId previous_sibling = kNoNode;
  Depth start = 0;
  Depth end = 0;   // > start, except for a root
  Run<Token> run;  // [start, end)
  std::uint64_t last_used : 40 = 0;
  std::uint64_t priority : 7 = 0;
  std::uint64_t pinned : 1 = 0;       // whether a lease is pinned to this very node
  std::uint64_t generation : 16 = 0;  // how often the id named another node before
  float retain_until = 0;             // of `priority`; seconds on the caller's clock, 0 = always
  std::uint16_t uses = 0;             // requests that came through its end; stays at the largest
  std::uint16_t turn = 0;             // of the request that computed its end (EntryInfo::turn)

  bool is_root() const { return parent == kNoNode; }
  bool leaf() const { return first_child == kNoNode; }
  std::span<const Token> tokens() const {
    return {run.data(), static_cast<std::size_t>(end - start)};
  }
};
static_assert(sizeof(Node) == 48);

class NodeStore {
 public:
  Node& operator[](NodeId id) { return chunks_[index_of(id) / kChunk][index_of(id) % kChunk]; }
  const Node& operator[](NodeId id) const {
    return chunks_[index_of(id) / kChunk][index_of(id) % kChunk];
  }

  NodeId add_root();
  // A child of `parent` with `tokens` (>= 1, of which no other child has the
  // first).
  NodeId add_child(NodeId parent, std::span<const Token> tokens);
  // A leaf, or a root without children.
  void remove(NodeId leaf);
  // Makes a node for the upper part [start, depth) of `node`, start < depth <
  // end. Returns it.
  NodeId split(NodeId node, Depth depth);
  // Adds tokens to a leaf; takes those from `end` on away.
  void grow(NodeId leaf, std::span<const Token> tokens);
  void cut(NodeId leaf, Depth end);

  // The child whose tokens begin with `first`; kNoNode if there is none.
  NodeId child(NodeId parent, Token first) const;
  // Whether paths part at the node's end.
  bool is_fork(NodeId id) const {
    const Node& node = (*this)[id];
    return !node.leaf() && (*this)[node.first_child].next_sibling != kNoNode;
  }

  // Ids are below this.
  std::uint32_t bound() const { return bound_; }
  std::uint32_t size() const { return size_; }
  // Whether an id below bound() names a node.
  bool exists(NodeId id) const { return (*this)[id].end >= 0; }
  // Bytes without the tokens.
  std::size_t metadata_bytes() const;

 private:
  static constexpr std::size_t kChunk = 1024;
  static constexpr std::uint32_t kTables = 1024;  // a power of two

  struct Table {
    std::vector<NodeId> places;  // open addressing, 3/5 to 3/4 full
    std::uint32_t taken = 0;
  };
  // Where a child is or belongs: its table, and the place to look from.
  struct Home {
    std::uint32_t table;
    std::uint32_t hash;
    std::size_t place(std::size_t places) const { return std::uint64_t{hash} * places >> 32; }
  };

  NodeId take_id();
  // An empty node of the same generation.
  void renew(NodeId id);
  void give_id(NodeId id);
  void link(NodeId parent, NodeId child);
  void unlink(NodeId child);
  static Home home_of(NodeId parent, Token first);
  Home home_of(NodeId child) const;
  void grow_table(Table& table);
  static std::size_t after(const Table& table, std::size_t place) {
    return place + 1 == table.places.size() ? 0 : place + 1;
  }
  void put_in_table(NodeId child);
  void take_from_table(NodeId child);
  // Where the child is in the table, or the empty place where it would be.
  std::size_t find(const Table& table, Home home, NodeId parent, Token first) const;

  std::vector<std::unique_ptr<Node[]>> chunks_;
  std::uint32_t bound_ = 0;
  std::uint32_t size_ = 0;
  NodeId free_ = kNoNode;  // list over `parent`; free nodes have end < 0
  std::vector<Table> tables_{kTables};
};

}  // namespace stemma
