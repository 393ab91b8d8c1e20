// Pages along paths: which node has which, what a leaf's tail is worth, and how
// it goes.

#include "cache/kv_component.h"

#include <algorithm>
#include <cassert>

namespace stemma {

KvComponent::KvComponent(Tree& tree, EvictionPolicy& policy, EntryKind kind, const CostModel& cost,
                         int page_size, std::uint32_t pages, std::uint64_t page_bytes,
                         ByteBudget* budget)
    : tree_(tree),
      policy_(policy),
      kind_(kind),
      cost_(cost),
      page_size_(page_size),
      pool_(pages, page_bytes, budget) {}

KvComponent::~KvComponent() {
  const NodeStore& nodes = tree_.nodes();
  for (std::uint32_t i = 0; i < nodes.bound() && i < pages_.size(); ++i) {
    if (!nodes.exists(NodeId{i})) continue;
    const std::size_t count = page_count(nodes[NodeId{i}]);
    for (std::size_t p = 0; p < count; ++p) drop(pages_[i].data()[p]);
  }
}

std::size_t KvComponent::page_count(const Node& node) const {
  if (node.end == node.start) return 0;  // a root
  const Depth end = node.leaf() ? node.end + page_size_ - 1 : node.end;
  return page_index(end) - first_page(node);
}

Depth KvComponent::end_without_last_page(const Node& node) const {
  return std::max(node.start, whole_pages(node.end - 1));
}

void KvComponent::share(NodeId node, Depth depth, std::size_t first, PageTable& table) {
  const std::size_t last = page_index(depth);
  std::vector<NodeId> path;
  for (NodeId at = node; !tree_[at].is_root() && page_index(tree_[at].end - 1) >= first;
       at = tree_[at].parent) {
    path.push_back(at);
  }
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const std::size_t offset = first_page(tree_[*at]);
    const std::size_t end = std::min(last, offset + page_count(tree_[*at]));
    const PageId* pages = pages_[index_of(*at)].data();
    for (std::size_t i = std::max(first, offset); i < end; ++i) {
      if (i == table.size()) {
        table.push_back(pool_.share(pages[i - offset], true));
      } else if (table[i].id() != pages[i - offset]) {
        table.replace(i, pool_.share(pages[i - offset], true));
      }
    }
  }
}

PageRef KvComponent::share_last(NodeId node, Depth depth) {
  const std::size_t index = page_index(depth - 1);
  NodeId at = node;
  while (index - first_page(tree_[at]) >= page_count(tree_[at])) at = tree_[at].first_child;
  return pool_.share(pages_[index_of(at)].data()[index - first_page(tree_[at])], true);
}

void KvComponent::use(NodeId leaf, Depth hit) {
  const Depth shorter = end_without_last_page(tree_[leaf]);
  if (hit > tree_.restorable(tree_.covering(leaf, shorter), shorter))
    policy_.used({kind_, index_of(leaf)}, tail_info(leaf));
}

void KvComponent::added(NodeId id, Holding& from) {
  const PageTable& table = static_cast<PageTable&>(from);
  pages_.grow_to(index_of(id) + std::size_t{1});
  const Node& node = tree_[id];
  const std::size_t first = first_page(node);
  const std::size_t count = page_count(node);
  Run<PageId>& pages = pages_[index_of(id)];
  pages.resize(0, count);
  for (std::size_t i = 0; i < count; ++i) pages.data()[i] = keep(table[first + i]);

  // The parent's partial page is needed no more once it has a child.
  const Node& parent = tree_[node.parent];
  if (parent.is_root() || parent.end % page_size_ == 0 || tree_.nodes().is_fork(node.parent))
    return;
  Run<PageId>& above = pages_[index_of(node.parent)];
  const std::size_t left = page_count(parent);
  drop(above.data()[left]);
  above.resize(left + 1, left);
}

void KvComponent::grown(NodeId leaf, Depth old_end, Holding& from) {
  const PageTable& table = static_cast<PageTable&>(from);
  const Node& node = tree_[leaf];
  const std::size_t first = first_page(node);
  const std::size_t old_count = page_index(old_end + page_size_ - 1) - first;
  const std::size_t count = page_count(node);
  Run<PageId>& pages = pages_[index_of(leaf)];
  if (old_end % page_size_ != 0) {
    // Leases pinned inside the page may have the one that leaves the tree (rule
    // b).
    PageId& last = pages.data()[old_count - 1];
    const PageRef& grown = table[page_index(old_end)];
    if (last != grown.id()) {
      tree_.lower_pins(leaf, whole_pages(old_end));
      drop(std::exchange(last, keep(grown)));
    }
  }
  pages.resize(old_count, count);
  for (std::size_t i = old_count; i < count; ++i) pages.data()[i] = keep(table[first + i]);
}

void KvComponent::split(NodeId upper, NodeId node) {
  pages_.grow_to(index_of(upper) + std::size_t{1});
  const std::size_t moved = page_count(tree_[upper]);
  const std::size_t left = page_count(tree_[node]);
  Run<PageId>& lower = pages_[index_of(node)];
  const std::span<const PageId> all(lower.data(), moved + left);
  pages_[index_of(upper)].assign(all.first(moved));
  Run<PageId> rest;
  rest.assign(all.subspan(moved));
  lower = std::move(rest);
}

void KvComponent::cutting(NodeId leaf, Depth end) {
  const Node& node = tree_[leaf];
  const std::size_t count = page_count(node);
  const std::size_t left = page_index(end + page_size_ - 1) - first_page(node);
  Run<PageId>& pages = pages_[index_of(leaf)];
  for (std::size_t i = left; i < count; ++i) drop(pages.data()[i]);
  pages.resize(count, left);
}

void KvComponent::removing(NodeId leaf) {
  const Node& node = tree_[leaf];
  Run<PageId>& pages = pages_[index_of(leaf)];
  const std::size_t count = page_count(node);

  // The parent becomes a leaf and must have the page that it ends inside of.
  // Leases pinned there may have another copy of it (rule b).
  const NodeId parent_id = node.parent;
  const Node& parent = tree_[parent_id];
  if (!parent.is_root() && parent.end % page_size_ != 0 && !tree_.nodes().is_fork(parent_id)) {
    const PageId page = pages.data()[0];
    const std::size_t above = page_count(parent);
    pages_[index_of(parent_id)].append(above, {&page, 1});
    tree_.lower_pins(parent_id, whole_pages(parent.end));
  } else if (count > 0) {
    drop(pages.data()[0]);
  }
  for (std::size_t i = 1; i < count; ++i) drop(pages.data()[i]);
  pages = {};
  policy_.erase({kind_, index_of(leaf)}, true);
}

bool KvComponent::tail_evictable(NodeId id) const {
  const Node& node = tree_[id];
  return node.leaf() && !node.is_root() && tree_.pinned_to(id) <= end_without_last_page(node);
}

void KvComponent::changed(NodeId node) {
  const EntryId entry{kind_, index_of(node)};
  if (tail_evictable(node)) {
    policy_.put(entry, tail_info(node));
  } else {
    policy_.hold(entry);
  }
}

EntryInfo KvComponent::tail_info(NodeId id) const {
  const Node& node = tree_[id];
  const Depth shorter = end_without_last_page(node);
  const Depth usable = tree_.restorable(id, node.end);
  const Depth left = tree_.restorable(tree_.covering(id, shorter), shorter);
  const Depth from = std::max(node.start, usable > left ? left : usable);
  EntryInfo info;
  info.depth = node.end;
  info.cost = cost_.of(left, usable);
  // A tail whose one page passes to its parent frees it with the parent's.
  info.bytes = std::max(tree_.bytes_above(id, from), static_cast<double>(pool_.slot_bytes()));
  info.last_used = node.last_used;
  info.uses = node.uses;
  info.turn = node.turn;
  info.place = EntryPlace::end;
  // A tail is reused where something deeper than KV is stored: that entry tells how.
  if (const auto used = tree_.entry_at(id, usable)) {
    info.uses = used->uses;
    info.turn = used->turn;
    info.place = used->place;
    info.stands_for_another = true;
    if (usable > left) {
      info.cost = used->cost;
      info.bytes = used->bytes;
    }
  }
  info.priority = node.priority;
  info.retain_until = node.retain_until;
  info.last_token = node.tokens().back();
  return info;
}

double KvComponent::bytes_above(NodeId leaf, Depth from) const {
  const Node& node = tree_[leaf];
  // The page that the node begins inside of is its own, unless its parent would
  // take it over.
  const bool own =
      from == node.start && (tree_[node.parent].is_root() || tree_.nodes().is_fork(node.parent));
  const std::size_t left = own ? first_page(node) : page_index(from + page_size_ - 1);
  const std::size_t end = page_index(node.end + page_size_ - 1);
  return static_cast<double>(end - std::min(end, left)) * static_cast<double>(pool_.slot_bytes());
}

void KvComponent::evict(std::uint32_t slot, std::uint32_t wanted) {
  const NodeId id{slot};
  const Node& node = tree_[id];
  const Depth pinned = tree_.pinned_to(id);
  const std::size_t first = first_page(node);
  std::size_t count = page_count(node);
  Depth end = node.end;
  for (std::uint32_t freed = 0; freed < wanted && count > 0; --count) {
    const Depth page_start = static_cast<Depth>(first + count - 1) * page_size_;
    if (page_start < pinned) break;
    freed += pool_.use(pages_[slot].data()[count - 1]).references == 1;
    end = std::max(node.start, page_start);
  }
  assert(end < node.end);
  tree_.cut(id, end);
}

Depth KvComponent::settle(NodeId id, Depth pinned, Depth to, Holding& holding) {
  PageTable& table = static_cast<PageTable&>(holding);
  share(id, to, page_index(pinned), table);
  const Node& node = tree_[id];
  const std::size_t last = page_index(to - 1) - first_page(node);
  if (last >= page_count(node)) return to;
  return pages_[index_of(id)].data()[last] == table[page_index(to - 1)].id() ? to : whole_pages(to);
}

std::size_t KvComponent::metadata_bytes() const { return pages_.metadata_bytes(); }

std::optional<std::string> KvComponent::verify(std::span<const LeaseView> leases) const {
  const auto where = [this](NodeId id) {
    return "node [" + std::to_string(tree_[id].start) + ", " + std::to_string(tree_[id].end) +
           "): ";
  };
  const NodeStore& nodes = tree_.nodes();
  std::vector<SlotPool<PageId>::Use> uses(pool_.capacity());

  // How deep each node, and so the path above it, is pinned by leases on or
  // below it.
  std::vector<Depth> locked_to(nodes.bound(), 0);
  for (const LeaseView& lease : leases) {
    Depth depth = lease.depth;
    for (NodeId at = lease.node;; at = nodes[at].parent) {
      locked_to[index_of(at)] = std::max(locked_to[index_of(at)], std::min(depth, nodes[at].end));
      if (nodes[at].is_root()) break;
    }
    const PageTable& table = static_cast<const PageTable&>(*lease.holdings[kind_]);
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (!table[i].pinned() || table[i].id() != table.ids()[i]) return "a page table is wrong";
      ++uses[index_of(table[i].id())].references;
      ++uses[index_of(table[i].id())].pins;
    }
    if (table.source) {
      ++uses[index_of(table.source->id())].references;
      ++uses[index_of(table.source->id())].pins;
    }
  }

  std::vector<PageId> locked;
  for (std::uint32_t i = 0; i < nodes.bound(); ++i) {
    const NodeId id{i};
    if (!nodes.exists(id)) continue;
    const std::size_t count = page_count(nodes[id]);
    for (std::size_t p = 0; p < count; ++p) {
      const PageId page = pages_[i].data()[p];
      ++uses[index_of(page)].references;
      const Depth page_start = static_cast<Depth>(first_page(nodes[id]) + p) * page_size_;
      if (locked_to[i] > page_start) locked.push_back(page);
    }
  }
  if (auto broken = pool_.verify(uses)) return "pages: " + *broken;
  for (const PageId page : locked) {
    if (pool_.use(page).pins == 0)
      return "page " + std::to_string(index_of(page)) + " counts as evictable and is not";
  }

  for (const LeaseView& lease : leases) {
    const PageTable& table = static_cast<const PageTable&>(*lease.holdings[kind_]);
    std::size_t expected = page_index(lease.depth);  // wholly below the pin
    if (table.size() < expected) return "a lease lacks pages";
    for (NodeId at = lease.node; !nodes[at].is_root(); at = nodes[at].parent) {
      const std::size_t first = first_page(nodes[at]);
      for (std::size_t i = first; i < std::min(expected, first + page_count(nodes[at])); ++i) {
        if (pages_[index_of(at)].data()[i - first] != table[i].id())
          return where(at) + "a lease has another page " + std::to_string(i);
      }
      expected = std::min(expected, first);
    }
    if (lease.depth % page_size_ == 0) continue;
    const std::size_t inside = page_index(lease.depth);
    const std::size_t first = first_page(nodes[lease.node]);
    if (inside - first >= page_count(nodes[lease.node])) continue;
    const PageId page = pages_[index_of(lease.node)].data()[inside - first];
    const bool is_source = table.source && table.source->id() == page;
    const bool in_table = inside < table.size() && table[inside].id() == page;
    if (!is_source && !in_table) return where(lease.node) + "a lease pins a page it does not use";
  }
  return std::nullopt;
}

}  // namespace stemma
