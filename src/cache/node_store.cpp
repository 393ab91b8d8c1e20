// Nodes in chunks, children in an open-addressing table with linear probing.
// Removal shifts later entries back, so there are no tombstones to clean up.

#include "cache/node_store.h"

#include <algorithm>
#include <utility>

namespace stemma {

NodeId NodeStore::take_id() {
  ++size_;
  if (free_ != kNoNode) {
    const NodeId id = free_;
    free_ = (*this)[id].parent;
    renew(id);
    return id;
  }
  if (bound_ % kChunk == 0) chunks_.emplace_back(new Node[kChunk]);
  return NodeId{bound_++};
}

void NodeStore::renew(NodeId id) {
  Node& node = (*this)[id];
  const std::uint64_t generation = node.generation;
  node = Node{};
  node.generation = generation;
}

void NodeStore::give_id(NodeId id) {
  renew(id);
  Node& node = (*this)[id];
  ++node.generation;
  node.end = -1;
  node.parent = free_;
  free_ = id;
  --size_;
}

NodeId NodeStore::add_root() { return take_id(); }

NodeId NodeStore::add_child(NodeId parent, std::span<const Token> tokens) {
  assert(!tokens.empty());
  const NodeId id = take_id();
  Node& node = (*this)[id];
  node.start = (*this)[parent].end;
  node.end = node.start + static_cast<Depth>(tokens.size());
  node.run.assign(tokens);
  link(parent, id);
  put_in_table(id);
  return id;
}

void NodeStore::remove(NodeId leaf) {
  assert((*this)[leaf].leaf());
  if (!(*this)[leaf].is_root()) {
    take_from_table(leaf);
    unlink(leaf);
  }
  give_id(leaf);
}

NodeId NodeStore::split(NodeId id, Depth depth) {
  const NodeId upper_id = take_id();
  Node& node = (*this)[id];
  Node& upper = (*this)[upper_id];
  assert(depth > node.start && depth < node.end);
  const std::span<const Token> tokens = node.tokens();
  const auto cut = static_cast<std::size_t>(depth - node.start);

  take_from_table(id);
  upper.start = node.start;
  upper.end = depth;
  upper.run.assign(tokens.first(cut));
  upper.uses = node.uses;
  upper.turn = node.turn;
  upper.last_used = node.last_used;
  upper.priority = node.priority;
  upper.retain_until = node.retain_until;

  Run<Token> lower;
  lower.assign(tokens.subspan(cut));
  node.run = std::move(lower);
  node.start = depth;

  const NodeId parent = node.parent;
  unlink(id);
  link(parent, upper_id);
  link(upper_id, id);
  put_in_table(upper_id);
  put_in_table(id);
  return upper_id;
}

void NodeStore::grow(NodeId leaf, std::span<const Token> tokens) {
  Node& node = (*this)[leaf];
  assert(node.leaf() && !node.is_root());
  node.run.append(node.tokens().size(), tokens);
  node.end += static_cast<Depth>(tokens.size());
}

void NodeStore::cut(NodeId leaf, Depth end) {
  Node& node = (*this)[leaf];
  assert(node.leaf() && end > node.start && end <= node.end);
  node.run.resize(node.tokens().size(), static_cast<std::size_t>(end - node.start));
  node.end = end;
}

void NodeStore::link(NodeId parent, NodeId child) {
  Node& above = (*this)[parent];
  Node& node = (*this)[child];
  node.parent = parent;
  node.previous_sibling = kNoNode;
  node.next_sibling = above.first_child;
  if (above.first_child != kNoNode) (*this)[above.first_child].previous_sibling = child;
  above.first_child = child;
}

void NodeStore::unlink(NodeId child) {
  Node& node = (*this)[child];
  if (node.next_sibling != kNoNode)
    (*this)[node.next_sibling].previous_sibling = node.previous_sibling;
  if (node.previous_sibling != kNoNode) {
    (*this)[node.previous_sibling].next_sibling = node.next_sibling;
  } else {
    (*this)[node.parent].first_child = node.next_sibling;
  }
}

NodeId NodeStore::child(NodeId parent, Token first) const {
  const Home home = home_of(parent, first);
  const Table& table = tables_[home.table];
  return table.taken == 0 ? kNoNode : table.places[find(table, home, parent, first)];
}

// A multiplicative hash of both (the constants are the golden ratio's and
// splitmix64's).
NodeStore::Home NodeStore::home_of(NodeId parent, Token first) {
  std::uint64_t h = (std::uint64_t{index_of(parent)} << 32 | static_cast<std::uint32_t>(first)) *
                    0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 32)) * 0xBF58476D1CE4E5B9u;
  return {static_cast<std::uint32_t>(h >> 16) % kTables, static_cast<std::uint32_t>(h >> 32)};
}

NodeStore::Home NodeStore::home_of(NodeId child) const {
  const Node& node = (*this)[child];
  return home_of(node.parent, node.run.data()[0]);
}

std::size_t NodeStore::find(const Table& table, Home home, NodeId parent, Token first) const {
  std::size_t at = home.place(table.places.size());
  for (;; at = after(table, at)) {
    if (table.places[at] == kNoNode) return at;
    const Node& node = (*this)[table.places[at]];
    if (node.parent == parent && node.run.data()[0] == first) return at;
  }
}

void NodeStore::put_in_table(NodeId child) {
  const Node& node = (*this)[child];
  const Home home = home_of(child);
  Table& table = tables_[home.table];
  if ((table.taken + 1) * std::size_t{4} > table.places.size() * 3) grow_table(table);
  table.places[find(table, home, node.parent, node.run.data()[0])] = child;
  ++table.taken;
}

void NodeStore::take_from_table(NodeId child) {
  const Node& node = (*this)[child];
  const Home home = home_of(child);
  Table& table = tables_[home.table];
  const std::size_t size = table.places.size();
  std::size_t hole = find(table, home, node.parent, node.run.data()[0]);
  assert(table.places[hole] == child);
  const auto distance = [size](std::size_t from, std::size_t to) {
    return to >= from ? to - from : to + size - from;
  };
  for (std::size_t at = after(table, hole); table.places[at] != kNoNode; at = after(table, at)) {
    // May move back to the hole only if its home is not between the hole and
    // it.
    if (distance(home_of(table.places[at]).place(size), at) >= distance(hole, at)) {
      table.places[hole] = table.places[at];
      hole = at;
    }
  }
  table.places[hole] = kNoNode;
  --table.taken;
}

void NodeStore::grow_table(Table& table) {
  constexpr std::size_t kLeast = 8;
  const std::size_t size = std::max(kLeast, table.places.size() + table.places.size() / 4);
  const std::vector<NodeId> old = std::exchange(table.places, std::vector<NodeId>(size, kNoNode));
  for (const NodeId child : old) {
    if (child == kNoNode) continue;
    const Node& node = (*this)[child];
    table.places[find(table, home_of(child), node.parent, node.run.data()[0])] = child;
  }
}

std::size_t NodeStore::metadata_bytes() const {
  std::size_t bytes = chunks_.size() * (kChunk * sizeof(Node) + sizeof(chunks_[0])) +
                      tables_.capacity() * sizeof(Table);
  for (const Table& table : tables_) bytes += table.places.capacity() * sizeof(NodeId);
  return bytes;
}

}  // namespace stemma
