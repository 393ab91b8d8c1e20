// Checks of the rules that tree.h and node_store.h state, for tests and checked
// builds.

#include "cache/tree.h"

namespace stemma {

std::optional<std::string> Tree::verify() const {
  std::uint64_t tokens = 0;
  std::uint32_t nodes = 0;
  for (std::uint32_t i = 0; i < nodes_.bound(); ++i) {
    const NodeId id{i};
    if (!nodes_.exists(id)) continue;
    ++nodes;
    const Node& node = nodes_[id];
    const std::string where =
        "node [" + std::to_string(node.start) + ", " + std::to_string(node.end) + "): ";
    const auto pins = pins_.find(id);
    if (node.pinned != (pins != pins_.end() && !pins->second.empty()))
      return where + "it is pinned and does not know, or not and thinks so";
    if (pins != pins_.end()) {
      for (const auto& [depth, pin] : pins->second) {
        if (pin->node != id || pin->depth != depth) return where + "a pin does not point back";
        if (node.is_root() ? depth != 0 : depth <= node.start || depth > node.end)
          return where + "pinned outside";
      }
    }
    if (node.is_root()) {
      if (node.start != 0 || node.end != 0) return where + "a root covers tokens";
      continue;
    }
    tokens += node.tokens().size();
    if (node.start >= node.end) return where + "covers nothing";
    const Node& parent = nodes_[node.parent];
    if (parent.end != node.start) return where + "does not go on where its parent ends";
    if (nodes_.child(node.parent, node.tokens().front()) != id)
      return where + "is not found under its parent";
    bool linked = false;
    for (NodeId child = parent.first_child; child != kNoNode; child = nodes_[child].next_sibling)
      linked |= child == id;
    if (!linked) return where + "is not among its parent's children";
    if (node.leaf() && !node.pinned) {
      bool empty = true;
      for (const Component* component : components_) empty &= component->empty(id);
      if (empty) return where + "should have been pruned";
    }
  }
  if (nodes != nodes_.size()) return "the count of nodes is wrong";
  if (tokens != tokens_) return "the count of cached tokens is wrong";
  return std::nullopt;
}

}  // namespace stemma
