// The tree's walks and changes.

#include "cache/tree.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace stemma {

Depth common_prefix(std::span<const Token> a, std::span<const Token> b) {
  // memcmp is vectorized where a loop with an early exit is not: one call for
  // the usual case that all is equal, then blocks until the one that differs.
  constexpr std::size_t kBlock = 128;
  const std::size_t length = std::min(a.size(), b.size());
  if (std::memcmp(a.data(), b.data(), length * sizeof(Token)) == 0)
    return static_cast<Depth>(length);
  std::size_t i = 0;
  while (i + kBlock <= length && std::memcmp(&a[i], &b[i], kBlock * sizeof(Token)) == 0) {
    i += kBlock;
  }
  while (i < length && a[i] == b[i]) ++i;
  return static_cast<Depth>(i);
}

Tree::Match Tree::match(NodeId root, std::span<const Token> tokens) const {
  const auto length = static_cast<Depth>(tokens.size());
  NodeId id = root;
  Depth depth = 0;
  while (depth == nodes_[id].end && depth < length) {
    const NodeId child = nodes_.child(id, tokens[depth]);
    if (child == kNoNode) break;
    id = child;
    depth += common_prefix(nodes_[id].tokens(), tokens.subspan(depth));
  }
  return {id, depth};
}

Depth Tree::restorable(NodeId node, Depth limit) const {
  for (;;) {
    Depth depth = limit;
    for (const Component* component : components_) {
      depth = std::min(depth, component->restorable(covering(node, depth), depth));
    }
    if (depth == limit) return depth;
    limit = depth;
  }
}

NodeId Tree::covering(NodeId node, Depth depth) const {
  while (!nodes_[node].is_root() && nodes_[node].start >= depth) node = nodes_[node].parent;
  return node;
}

std::vector<Depth> Tree::forks(NodeId node, Depth from, Depth to) const {
  std::vector<Depth> depths;
  for (NodeId at = node; nodes_[at].end > from && !nodes_[at].is_root(); at = nodes_[at].parent) {
    if (nodes_[at].end <= to && nodes_.is_fork(at)) depths.push_back(nodes_[at].end);
  }
  std::reverse(depths.begin(), depths.end());
  return depths;
}

void Tree::raise(Node& node, const Retention& retention) {
  if (retention.priority < node.priority) return;
  node.priority = retention.priority;
  node.retain_until = static_cast<float>(retention.until);
}

void Tree::use(NodeId node, Depth depth, const Retention& retention) {
  ++clock_;
  for (NodeId at = node; !nodes_[at].is_root(); at = nodes_[at].parent) {
    Node& used = nodes_[at];
    used.last_used = clock_;
    if (used.end <= depth && used.uses < 0xFFFF) ++used.uses;
    raise(used, retention);
  }
  changed(node);  // only the last node of a path can be a leaf
}

void Tree::pin(Pin& pin, NodeId node, Depth depth) {
  assert(pin.node == kNoNode);
  set_pin(pin, node, depth);
}

void Tree::lower(Pin& pin, Depth depth) {
  assert(depth <= pin.depth);
  set_pin(pin, covering(pin.node, depth), depth);
}

void Tree::unpin(Pin& pin) {
  const NodeId node = pin.node;
  take_off(pin);
  pin = {};
  changed(node);
  prune(node, false);
}

void Tree::take_off(Pin& pin) {
  const auto of_node = pins_.find(pin.node);
  of_node->second.erase({pin.depth, &pin});
  if (!of_node->second.empty()) return;
  pins_.erase(of_node);
  nodes_[pin.node].pinned = false;
}

void Tree::set_pin(Pin& pin, NodeId node, Depth depth) {
  const NodeId from = pin.node;
  if (from != kNoNode) take_off(pin);
  pin.node = node;
  pin.depth = depth;
  pins_[node].insert({depth, &pin});
  nodes_[node].pinned = true;
  changed(node);
  if (from != kNoNode && from != node) changed(from);
}

Depth Tree::pinned_to(NodeId node) const {
  return nodes_[node].pinned ? pins_.at(node).rbegin()->first : 0;
}

void Tree::lower_pins(NodeId node, Depth depth) {
  while (pinned_to(node) > depth) lower(*pins_.at(node).rbegin()->second, depth);
}

NodeId Tree::extend(Pin& pin, std::span<const Token> tokens, std::span<Holding* const> holdings,
                    const Retention& retention) {
  const auto to = static_cast<Depth>(tokens.size());
  if (to <= pin.depth) return covering(pin.node, to);

  NodeId node = pin.node;
  NodeId cut_off = kNoNode;
  Depth depth = pin.depth;
  while (depth < to) {
    if (depth < nodes_[node].end) {
      const std::size_t skipped = static_cast<std::size_t>(depth - nodes_[node].start);
      depth += common_prefix(nodes_[node].tokens().subspan(skipped), tokens.subspan(depth));
      if (depth == to) break;
      if (depth < nodes_[node].end) {
        cut_off = node;
        node = split(node, depth);
      }
    }
    const NodeId child = nodes_.child(node, tokens[depth]);
    if (child != kNoNode) {
      node = child;
      continue;
    }
    const std::span<const Token> rest = tokens.subspan(depth);
    tokens_ += rest.size();
    if (!nodes_[node].is_root() && nodes_[node].leaf()) {
      nodes_.grow(node, rest);
      nodes_[node].turn = pin.turn;
      raise(nodes_[node], retention);
      for (std::size_t i = 0; i < components_.size(); ++i)
        components_[i]->grown(node, depth, *holdings[i]);
    } else {
      const NodeId parent = node;
      node = nodes_.add_child(parent, rest);
      nodes_[node].turn = pin.turn;
      nodes_[node].priority = retention.priority;
      nodes_[node].retain_until = static_cast<float>(retention.until);
      for (std::size_t i = 0; i < components_.size(); ++i)
        components_[i]->added(node, *holdings[i]);
      changed(parent);
    }
    depth = to;
  }

  Depth pinned = to;
  for (std::size_t i = 0; i < components_.size(); ++i)
    pinned = std::min(pinned, components_[i]->settle(node, pin.depth, to, *holdings[i]));
  set_pin(pin, covering(node, pinned), pinned);
  ++clock_;
  for (NodeId at = node; !nodes_[at].is_root(); at = nodes_[at].parent)
    nodes_[at].last_used = clock_;
  changed(node);
  if (cut_off != kNoNode) prune(cut_off, false);
  return node;
}

// The upper part becomes a new node, the lower part stays the one that pins and
// entries of deep depths name.
NodeId Tree::split(NodeId node, Depth depth) {
  const NodeId upper = nodes_.split(node, depth);
  if (nodes_[node].pinned) {
    auto& lower_pins = pins_.at(node);
    while (!lower_pins.empty() && lower_pins.begin()->first <= depth) {
      auto moved = lower_pins.extract(lower_pins.begin());
      moved.value().second->node = upper;
      pins_[upper].insert(std::move(moved));
      nodes_[upper].pinned = true;
    }
    if (pins_.at(node).empty()) {
      pins_.erase(node);
      nodes_[node].pinned = false;
    }
  }
  for (Component* component : components_) component->split(upper, node);
  changed(node);
  return upper;
}

void Tree::cut(NodeId leaf, Depth end) {
  assert(pinned_to(leaf) <= end);
  if (end == nodes_[leaf].start) {
    remove(leaf, true);
    return;
  }
  for (Component* component : components_) component->cutting(leaf, end);
  ghosts_.add(leaf, nodes_[leaf].generation, end, nodes_[leaf].tokens()[end - nodes_[leaf].start]);
  tokens_ -= static_cast<std::uint64_t>(nodes_[leaf].end - end);
  nodes_.cut(leaf, end);
  changed(leaf);
}

void Tree::remove(NodeId leaf, bool evicted) {
  const NodeId parent = nodes_[leaf].parent;
  for (Component* component : components_) component->removing(leaf);
  if (evicted) {
    ghosts_.add(parent, nodes_[parent].generation, nodes_[parent].end,
                nodes_[leaf].tokens().front());
  }
  tokens_ -= nodes_[leaf].tokens().size();
  nodes_.remove(leaf);
  changed(parent);
}

void Tree::prune(NodeId node, bool evicted) {
  NodeId at = node;
  while (!nodes_[at].is_root() && nodes_[at].leaf() && !nodes_[at].pinned) {
    const bool empty = std::all_of(components_.begin(), components_.end(),
                                   [at](const Component* c) { return c->empty(at); });
    if (!empty) return;
    const NodeId parent = nodes_[at].parent;
    remove(at, evicted);
    at = parent;
  }
}

void Tree::changed(NodeId node) {
  if (nodes_[node].is_root()) return;
  for (Component* component : components_) component->changed(node);
}

std::optional<EntryInfo> Tree::entry_at(NodeId node, Depth depth) const {
  for (const Component* component : components_) {
    if (auto entry = component->entry_at(covering(node, depth), depth)) return entry;
  }
  return std::nullopt;
}

double Tree::bytes_above(NodeId leaf, Depth from) const {
  double bytes = 0;
  for (const Component* component : components_) bytes += component->bytes_above(leaf, from);
  return bytes;
}

}  // namespace stemma
