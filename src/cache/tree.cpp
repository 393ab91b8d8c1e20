// The tree's walks and changes; tree_verify.cpp checks its rules.

#include "cache/tree.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace stemma {

Depth common_prefix(std::span<const Token> a, std::span<const Token> b) {
  // Compared at once by memcmp, which is vectorized where a loop with an early exit is not.
  constexpr std::size_t kBlock = 128;
  const std::size_t length = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i + kBlock <= length && std::memcmp(&a[i], &b[i], kBlock * sizeof(Token)) == 0) {
    i += kBlock;
  }
  while (i < length && a[i] == b[i]) ++i;
  return static_cast<Depth>(i);
}

Tree::Tree(int page_size, std::unique_ptr<EvictionPolicy> tails,
           std::unique_ptr<EvictionPolicy> checkpoints)
    : page_size_(page_size),
      tail_policy_(std::move(tails)),
      checkpoint_policy_(std::move(checkpoints)) {}

// Paths can be long chains of nodes: no recursion.
Tree::~Tree() {
  std::vector<std::unique_ptr<Node>> left = std::move(roots_);
  while (!left.empty()) {
    const std::unique_ptr<Node> node = std::move(left.back());
    left.pop_back();
    for (auto& [token, child] : node->children) left.push_back(std::move(child));
  }
}

Node& Tree::add_root() {
  roots_.push_back(std::make_unique<Node>());
  return *roots_.back();
}

Tree::Match Tree::match(Node& root, std::span<const Token> tokens) const {
  const auto length = static_cast<Depth>(tokens.size());
  Node* node = &root;
  Depth depth = 0;
  while (depth == node->end && depth < length) {
    const auto child = node->children.find(tokens[depth]);
    if (child == node->children.end()) break;
    node = child->second.get();
    depth += common_prefix(node->tokens, tokens.subspan(depth));
  }
  return {node, depth};
}

Checkpoint* Tree::deepest_checkpoint(Node& node, Depth limit) {
  for (Node* at = &node; at; at = at->parent) {
    const auto above =
        std::upper_bound(at->checkpoints.begin(), at->checkpoints.end(), limit,
                         [](Depth depth, const Checkpoint& c) { return depth < c.depth; });
    if (above != at->checkpoints.begin()) return &*(above - 1);
  }
  return nullptr;
}

std::vector<Depth> Tree::checkpoint_depths(const Node& node, Depth from, Depth to) const {
  std::vector<Depth> depths;
  for (const Node* at = &node; at && at->end > from; at = at->parent) {
    for (auto c = at->checkpoints.rbegin(); c != at->checkpoints.rend(); ++c) {
      if (c->depth > from && c->depth <= to) depths.push_back(c->depth);
    }
  }
  std::reverse(depths.begin(), depths.end());
  return depths;
}

void Tree::touch(Node& node) {
  ++clock_;
  for (Node* at = &node; at; at = at->parent) at->last_used = clock_;
  update_tail(node);  // only the last node of a path can be a leaf
}

void Tree::touch(Checkpoint& checkpoint) {
  checkpoint.last_used = clock_;
  if (!checkpoint.row.unique()) return;  // held: no candidate
  const Place& place = checkpoint_places_.at(checkpoint.entry);
  checkpoint_policy_->touch(checkpoint.entry, checkpoint_info(*place.node, checkpoint));
}

void Tree::pin(Pin& pin, Node& node, Depth depth) {
  assert(!pin.node);
  set_pin(pin, node, depth);
}

void Tree::lower(Pin& pin, Depth depth) {
  assert(depth <= pin.depth);
  set_pin(pin, covering(*pin.node, depth), depth);
}

void Tree::unpin(Pin& pin) {
  Node& node = *pin.node;
  node.pins.erase({pin.depth, &pin});
  pin = {};
  update_tail(node);
  prune(node);
}

void Tree::set_pin(Pin& pin, Node& node, Depth depth) {
  Node* const from = pin.node;
  if (from) from->pins.erase({pin.depth, &pin});
  pin = {&node, depth};
  node.pins.insert({depth, &pin});
  update_tail(node);
  if (from && from != &node) update_tail(*from);
}

void Tree::share_pages(const Node& node, Depth depth, std::size_t first,
                       std::vector<PageRef>& table) const {
  if (page_size_ == 0) return;
  const std::size_t last = page_index(depth);
  std::vector<const Node*> path;
  for (const Node* at = &node; at->parent && page_index(at->end - 1) >= first; at = at->parent) {
    path.push_back(at);
  }
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const std::size_t offset = first_page(**at);
    const std::size_t end = std::min(last, offset + (*at)->pages.size());
    for (std::size_t i = std::max(first, offset); i < end; ++i) {
      const PageRef& page = (*at)->pages[i - offset];
      if (i == table.size()) {
        table.push_back(page.share(true));
      } else if (table[i].id() != page.id()) {
        table[i] = page.share(true);
      }
    }
  }
}

PageRef Tree::share_page(const Node& node, Depth depth) const {
  return node.pages[page_index(depth - 1) - first_page(node)].share(true);
}

Node& Tree::extend(Pin& pin, std::span<const Token> tokens, std::vector<PageRef>& table) {
  const auto to = static_cast<Depth>(tokens.size());
  if (to <= pin.depth) return covering(*pin.node, to);

  Node* node = pin.node;
  Node* cut_off = nullptr;
  Depth depth = pin.depth;
  while (depth < to) {
    if (depth < node->end) {
      const auto rest = std::span<const Token>(node->tokens).subspan(depth - node->start);
      depth += common_prefix(rest, tokens.subspan(depth));
      if (depth == to) break;
      if (depth < node->end) {
        cut_off = node;
        node = &split(*node, depth);
      }
    }
    const auto child = node->children.find(tokens[depth]);
    if (child != node->children.end()) {
      node = child->second.get();
      continue;
    }
    if (node->parent && node->leaf()) {
      grow(*node, tokens, table);
    } else {
      node = &add_child(*node, tokens, table);
    }
    depth = to;
  }

  Depth pinned = to;
  if (page_size_ > 0) {
    share_pages(*node, to, page_index(pin.depth), table);
    const std::size_t last = page_index(to - 1);
    if (node->pages[last - first_page(*node)].id() != table[last].id()) pinned = whole_pages(to);
  }
  set_pin(pin, covering(*node, pinned), pinned);
  touch(*node);
  if (cut_off) prune(*cut_off);
  return *node;
}

Node& Tree::covering(Node& node, Depth depth) {
  Node* at = &node;
  while (at->parent && at->start >= depth) at = at->parent;
  return *at;
}

// The upper part becomes a new node, the lower part stays the object that pins and entries of deep
// depths name.
Node& Tree::split(Node& node, Depth depth) {
  auto made = std::make_unique<Node>();
  Node& upper = *made;
  upper.parent = node.parent;
  upper.start = node.start;
  upper.end = depth;
  upper.tail = next_entry();
  upper.last_used = node.last_used;
  const auto cut = node.tokens.begin() + (depth - node.start);
  upper.tokens.assign(node.tokens.begin(), cut);
  node.tokens.erase(node.tokens.begin(), cut);

  if (page_size_ > 0) {
    const auto pages = node.pages.begin() + (page_index(depth) - first_page(node));
    upper.pages.assign(std::make_move_iterator(node.pages.begin()), std::make_move_iterator(pages));
    node.pages.erase(node.pages.begin(), pages);
    if (depth % page_size_ != 0) upper.pages.push_back(node.pages.front().share(false));
  }

  const auto deeper = std::upper_bound(node.checkpoints.begin(), node.checkpoints.end(), depth,
                                       [](Depth d, const Checkpoint& c) { return d < c.depth; });
  for (auto c = node.checkpoints.begin(); c != deeper; ++c) {
    checkpoint_places_.at(c->entry).node = &upper;
  }
  upper.checkpoints.assign(std::make_move_iterator(node.checkpoints.begin()),
                           std::make_move_iterator(deeper));
  node.checkpoints.erase(node.checkpoints.begin(), deeper);

  while (!node.pins.empty() && node.pins.begin()->first <= depth) {
    auto moved = node.pins.extract(node.pins.begin());
    moved.value().second->node = &upper;
    upper.pins.insert(std::move(moved));
  }

  node.start = depth;
  node.parent = &upper;
  std::unique_ptr<Node>& slot = upper.parent->children.at(upper.tokens.front());
  upper.children.emplace(node.tokens.front(), std::move(slot));
  slot = std::move(made);
  ++counts_.nodes;
  update_tail(node);
  return upper;
}

Node& Tree::add_child(Node& parent, std::span<const Token> tokens, std::span<const PageRef> table) {
  auto made = std::make_unique<Node>();
  Node& node = *made;
  node.parent = &parent;
  node.start = parent.end;
  node.end = static_cast<Depth>(tokens.size());
  node.tokens.assign(tokens.begin() + node.start, tokens.end());
  node.tail = next_entry();
  if (page_size_ > 0) {
    for (std::size_t i = first_page(node); i <= page_index(node.end - 1); ++i) {
      node.pages.push_back(table[i].share(false));
    }
  }
  parent.children.emplace(node.tokens.front(), std::move(made));
  ++counts_.nodes;
  counts_.tokens += node.tokens.size();
  update_tail(parent);
  update_tail(node);
  return node;
}

void Tree::grow(Node& leaf, std::span<const Token> tokens, std::span<const PageRef> table) {
  if (ends_inside_page(leaf)) replace_last_page(leaf, table[page_index(leaf.end)]);
  counts_.tokens += tokens.size() - leaf.end;
  leaf.tokens.insert(leaf.tokens.end(), tokens.begin() + leaf.end, tokens.end());
  leaf.end = static_cast<Depth>(tokens.size());
  if (page_size_ > 0) {
    for (std::size_t i = first_page(leaf) + leaf.pages.size(); i <= page_index(leaf.end - 1); ++i) {
      leaf.pages.push_back(table[i].share(false));
    }
  }
  update_tail(leaf);
}

// For the node, which ends inside the page, and for those ancestors that share the page with it
// (rule a). Leases pinned inside the page hold the one that leaves the tree: they pin whole pages
// from now on (rule c).
void Tree::replace_last_page(Node& node, const PageRef& page) {
  const PageId old = node.pages.back().id();
  if (page.id() == old) return;
  const Depth page_start = end_without_last_page(node) / page_size_ * page_size_;
  for (Node* at = &node;; at = at->parent) {
    while (!at->pins.empty() && at->pins.rbegin()->first > page_start) {
      lower(*at->pins.rbegin()->second, page_start);
    }
    at->pages.back() = page.share(false);
    if (at->start <= page_start || at->parent->pages.back().id() != old) break;
  }
}

void Tree::attach(Node& node, Depth depth, RowRef row) {
  if (depth <= 0) return;
  Node& at = covering(node, depth);
  const auto place = std::lower_bound(at.checkpoints.begin(), at.checkpoints.end(), depth,
                                      [](const Checkpoint& c, Depth d) { return c.depth < d; });
  if (place != at.checkpoints.end() && place->depth == depth) return;
  row.set_pinned(false);
  const EntryId entry = next_entry();
  const auto added = at.checkpoints.insert(place, Checkpoint{depth, std::move(row), entry, clock_});
  checkpoint_places_.emplace(entry, Place{&at, depth});
  checkpoint_policy_->insert(entry, checkpoint_info(at, *added));
  ++counts_.checkpoints;
}

RowRef Tree::hold(Checkpoint& checkpoint) {
  checkpoint_policy_->erase(checkpoint.entry);
  return checkpoint.row.share(true);
}

void Tree::release(EntryId checkpoint) {
  const auto place = checkpoint_places_.find(checkpoint);
  if (place == checkpoint_places_.end()) return;
  Node& node = *place->second.node;
  const Checkpoint& released = *deepest_checkpoint(node, place->second.depth);
  if (!released.row.unique()) return;  // another lease restores from it
  checkpoint_policy_->insert(checkpoint, checkpoint_info(node, released));
}

bool Tree::evict_tail(std::uint32_t pages) {
  const std::optional<EntryId> victim = tail_policy_->victim();
  if (!victim) return false;
  Node& node = *tails_.at(*victim);
  for (std::uint32_t freed = 0; freed < pages;) {
    const Depth end = end_without_last_page(node);
    if (!node.pins.empty() && node.pins.rbegin()->first > end) break;
    freed += node.pages.back().unique();
    if (end == node.start) {
      remove(node);
      return true;
    }
    drop_checkpoints_above(node, end);
    counts_.tokens -= node.end - end;
    node.tokens.resize(end - node.start);
    node.pages.pop_back();
    node.end = end;
  }
  update_tail(node);
  return true;
}

bool Tree::evict_checkpoint() {
  const std::optional<EntryId> victim = checkpoint_policy_->victim();
  if (!victim) return false;
  const Place place = checkpoint_places_.at(*victim);
  Node& node = *place.node;
  const Checkpoint* dropped = deepest_checkpoint(node, place.depth);
  node.checkpoints.erase(node.checkpoints.begin() + (dropped - node.checkpoints.data()));
  checkpoint_policy_->erase(*victim);
  checkpoint_places_.erase(*victim);
  --counts_.checkpoints;
  ++counts_.dropped_checkpoints;
  prune(node);
  return true;
}

Depth Tree::end_without_last_page(const Node& node) const {
  return std::max(node.start, (node.end - 1) / page_size_ * page_size_);
}

void Tree::drop_checkpoints_above(Node& node, Depth depth) {
  while (!node.checkpoints.empty() && node.checkpoints.back().depth > depth) {
    const EntryId entry = node.checkpoints.back().entry;
    checkpoint_policy_->erase(entry);
    checkpoint_places_.erase(entry);
    node.checkpoints.pop_back();
    --counts_.checkpoints;
    ++counts_.dropped_checkpoints;
  }
}

void Tree::remove(Node& node) {
  Node& parent = *node.parent;
  drop_checkpoints_above(node, node.start);
  tail_policy_->erase(node.tail);
  tails_.erase(node.tail);
  counts_.tokens -= node.tokens.size();
  --counts_.nodes;
  const bool shared = parent.parent && ends_inside_page(parent) &&
                      parent.pages.back().id() == node.pages.front().id();
  parent.children.erase(parent.children.find(node.tokens.front()));
  if (shared && !parent.leaf()) {
    replace_last_page(parent, parent.children.begin()->second->pages.front());
  }
  update_tail(parent);
}

void Tree::update_tail(Node& node) {
  if (page_size_ == 0 || !node.parent) return;
  const bool evictable = node.leaf() && (node.pins.empty() ||
                                         node.pins.rbegin()->first <= end_without_last_page(node));
  if (!evictable) {
    if (tails_.erase(node.tail) > 0) tail_policy_->erase(node.tail);
  } else if (tails_.emplace(node.tail, &node).second) {
    tail_policy_->insert(node.tail, tail_info(node));
  } else {
    tail_policy_->touch(node.tail, tail_info(node));
  }
}

void Tree::prune(Node& node) {
  if (page_size_ > 0) return;
  Node* at = &node;
  while (at->parent && at->leaf() && at->pins.empty() && at->checkpoints.empty()) {
    Node* const parent = at->parent;
    remove(*at);
    at = parent;
  }
}

EntryInfo Tree::tail_info(const Node& node) const {
  return {node.end, node.end - end_without_last_page(node), node.last_used};
}

EntryInfo Tree::checkpoint_info(Node& node, const Checkpoint& checkpoint) {
  const Checkpoint* before = deepest_checkpoint(node, checkpoint.depth - 1);
  return {checkpoint.depth, checkpoint.depth - (before ? before->depth : 0), checkpoint.last_used};
}

}  // namespace stemma
