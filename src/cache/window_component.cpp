// Window pages along paths: where they are, which depths they make resumable, what they are worth,
// and how they come and go.

#include "cache/window_component.h"

#include <algorithm>
#include <cassert>

namespace stemma {

std::vector<WindowRef> WindowTable::take_front(std::size_t index) {
  const auto count = static_cast<std::ptrdiff_t>(std::clamp(index, first_, end()) - first_);
  std::vector<WindowRef> taken(std::make_move_iterator(refs_.begin()),
                               std::make_move_iterator(refs_.begin() + count));
  refs_.erase(refs_.begin(), refs_.begin() + count);
  ids_.erase(ids_.begin(), ids_.begin() + count);
  first_ += taken.size();
  return taken;
}

WindowComponent::WindowComponent(Tree& tree, EvictionPolicy& policy, EntryKind kind,
                                 const CostModel& cost, int page_size, Depth window,
                                 std::uint32_t pages, std::uint64_t page_bytes, ByteBudget* budget)
    : tree_(tree),
      policy_(policy),
      kind_(kind),
      cost_(cost),
      page_size_(page_size),
      window_(window),
      window_pages_((static_cast<std::size_t>(window) + page_size - 1) / page_size),
      pool_(pages, page_bytes, budget),
      records_(pages) {}

WindowComponent::~WindowComponent() {
  for (std::uint32_t page = 0; page < records_.size(); ++page) {
    if (records_[page].node != kNoNode) const WindowRef last = pool_.adopt(WindowPageId{page});
  }
}

std::size_t WindowComponent::most_pages(Depth length, Depth step) const {
  // A stretch of tokens has most pages if it ends with the first of one.
  const std::size_t stretch = static_cast<std::size_t>(window_) + step;
  return std::min(pages_to(length), (stretch + page_size_ - 2) / page_size_ + 1);
}

std::size_t WindowComponent::page_count(const Node& node) const {
  if (node.end == node.start) return 0;  // a root
  return page_index(node.end - 1) + 1 - first_page(node);
}

NodeId WindowComponent::next_with(WindowPageId page, NodeId node, std::size_t index) const {
  const Node& below = tree_[node];
  if (below.start <= depth_of(index)) return kNoNode;
  return places(below.parent).back() == page ? below.parent : kNoNode;
}

// ---- What can be restored

// Of kStride places, which takes a few instructions of a vector.
bool WindowComponent::all_holes(const WindowPageId* pages) {
  bool all = true;
  for (std::size_t i = 0; i < kStride; ++i) all &= pages[i] == kHole;
  return all;
}
bool WindowComponent::no_holes(const WindowPageId* pages) {
  bool none = true;
  for (std::size_t i = 0; i < kStride; ++i) none &= pages[i] != kHole;
  return none;
}

Depth WindowComponent::deepest(NodeId node, Depth limit, Depth above) const {
  // `depth` is the deepest that nothing seen so far forbids; all of [to, depth) is there.
  Depth depth = limit;
  Depth to = limit;
  for (NodeId at = node; depth > above;) {
    const Node& covering = tree_[at];
    if (covering.start >= to && !covering.is_root()) {
      at = covering.parent;
      continue;
    }
    if (counts_[index_of(at)] == 0) {
      depth = to = covering.start;
      continue;
    }
    const std::size_t first = first_page(covering);
    const WindowPageId* const pages = pages_[index_of(at)].data();
    for (std::size_t i = page_index(to - 1) + 1; i > first && depth > above;) {
      // All pages from `i` on were seen. If that of the window's other end is missing, no depth
      // before it needs to be looked at.
      const std::size_t last = page_index(start_of(depth));
      if (to == depth && last > first && last + 1 < i && pages[last - first] == kHole) i = last + 1;
      const std::size_t stop = std::max(last, first);
      while (i >= stop + kStride && no_holes(pages + (i - first - kStride))) i -= kStride;
      while (i > stop && pages[i - 1 - first] != kHole) --i;
      if (i == stop) {
        if (stop == last) return depth;
        to = depth_of(stop);
        break;
      }
      while (i > first + kStride && all_holes(pages + (i - 1 - first - kStride))) i -= kStride;
      --i;
      // Ancestors that end inside this page may have another of this index.
      depth = to = std::max(depth_of(i), covering.start);
    }
  }
  return std::min(depth, above);
}

std::vector<DepthRange> WindowComponent::present(NodeId node, Depth to) const {
  std::vector<DepthRange> found;
  for (NodeId at = node; !tree_[at].is_root(); at = tree_[at].parent) {
    const Node& covering = tree_[at];
    const std::size_t first = first_page(covering);
    const Depth end = std::min(covering.end, to);
    for (std::size_t i = page_index(end - 1) + 1; i-- > first;) {
      if (places(at)[i - first] == kHole) continue;
      const DepthRange page{std::max(depth_of(i), covering.start),
                            std::min(depth_of(i) + page_size_, end)};
      if (!found.empty() && found.back().from == page.to) {
        found.back().from = page.from;
      } else {
        found.push_back(page);
      }
    }
  }
  std::reverse(found.begin(), found.end());
  return found;
}

double WindowComponent::bytes_above(NodeId leaf, Depth from) const {
  if (counts_[index_of(leaf)] == 0) return 0;
  const Node& node = tree_[leaf];
  const std::span<const WindowPageId> all = places(leaf);
  std::size_t left = page_index(from + page_size_ - 1);
  std::size_t count = 0;
  if (from == node.start) {
    count = counts_[index_of(leaf)];
    left = first_page(node);
    if (all[0] != kHole && next_with(all[0], leaf, left) != kNoNode) --count;
  } else {
    for (std::size_t i = left - first_page(node); i < all.size(); ++i) count += all[i] != kHole;
  }
  return static_cast<double>(count) * static_cast<double>(pool_.slot_bytes());
}

// ---- What pages are worth

std::size_t WindowComponent::run_before(NodeId node, std::size_t place) const {
  const std::span<const WindowPageId> all = places(node);
  std::size_t run = 0;
  while (run <= window_pages_ && run < place && all[place - 1 - run] != kHole) ++run;
  return run;
}

std::size_t WindowComponent::run_behind(NodeId node, std::size_t place) const {
  const std::span<const WindowPageId> all = places(node);
  std::size_t run = 0;
  while (run <= window_pages_ && place + 1 + run < all.size() && all[place + 1 + run] != kHole)
    ++run;
  return run;
}

EntryInfo WindowComponent::info(WindowPageId page) const {
  const Page& record = page_at(page);
  // Where paths part inside the page, that is what it serves most.
  const NodeId above = next_with(page, record.node, record.index);
  const NodeId id = above != kNoNode && tree_.nodes().is_fork(above) ? above : record.node;
  const Node& node = tree_[id];
  const Depth start = depth_of(record.index);
  const Depth end = std::min(start + page_size_, node.end);
  EntryInfo info;
  info.depth = end;
  info.bytes = static_cast<double>(pool_.slot_bytes());
  info.last_used = record.last_used;
  info.uses = record.uses;
  info.turn = node.turn;
  info.priority = node.priority;
  info.retain_until = node.retain_until;
  info.last_token = node.tokens()[end - node.start - 1];

  // The depths in (start, last] need it; this is the deepest of them that can be restored.
  const auto last = static_cast<Depth>(
      std::min<std::int64_t>(node.end, std::int64_t{start} + page_size_ + window_ - 1));
  Depth served = deepest(id, last, start);
  if (served > start) served = tree_.restorable(tree_.covering(id, served), served);
  if (served > start) {
    if (node.leaf() && (last == node.end || served == tree_.restorable(id, node.end))) {
      info.place = EntryPlace::end;
    } else if (served == node.end && tree_.nodes().is_fork(id)) {
      info.place = EntryPlace::fork;
    }
  } else if (node.leaf() || last < node.end) {
    return info;  // it serves nothing
  } else {
    served = node.end;  // what lies below may need it though the node itself lacks others
  }
  if (info.place != EntryPlace::inside)
    info.last_used = std::max<std::uint64_t>(info.last_used, node.last_used);
  // What else is stored there tells how it is used.
  const auto used = tree_.entry_at(id, served);
  if (used) {
    info.place = used->place;
    info.uses = used->uses;
    info.turn = used->turn;
    info.last_used = std::max(info.last_used, used->last_used);
  }

  const std::size_t place = record.index - first_page(node);
  const std::size_t run = run_before(id, place) + 1 + run_behind(id, place);
  if (info.place == EntryPlace::inside && !used && run > window_pages_) {
    // One of many: the depths inside it must be computed from its start.
    info.cost = cost_.of(start, end);
    return info;
  }
  // Of the window before one depth, the others serve nothing without it.
  const Depth window_start = depth_of(page_index(start_of(served)));
  info.cost = cost_.of(tree_.restorable(tree_.covering(id, window_start), window_start), served);
  info.bytes *= static_cast<double>(page_index(served - 1) + 1 - page_index(window_start));
  info.stands_for_another = used || page_index(served - 1) != record.index;
  return info;
}

void WindowComponent::put(WindowPageId page) {
  if (!held(page)) policy_.put({kind_, index_of(page)}, info(page));
}

void WindowComponent::put_beside(NodeId node, std::size_t place) {
  // A run that has just become as short as a window, or too short for one, is worth something else
  // as a whole; of others only the end may be.
  const auto told = [this](std::size_t run) {
    const bool turns = run + 1 >= window_pages_ && run <= window_pages_ + 1;
    return turns ? run : std::min<std::size_t>(run, 1);
  };
  for (std::size_t i = told(run_before(node, place)); i > 0; --i) put(places(node)[place - i]);
  for (std::size_t i = told(run_behind(node, place)); i > 0; --i) put(places(node)[place + i]);
}

// ---- What leases have

WindowRef WindowComponent::hold(WindowPageId page) {
  policy_.hold({kind_, index_of(page)});
  return pool_.share(page, true);
}

void WindowComponent::give_back(WindowRef page) {
  const WindowPageId id = page.id();
  page.set_pinned(false);
  if (page_at(id).node != kNoNode) put(id);
}

void WindowComponent::share(NodeId node, Depth depth, WindowTable& table) {
  const std::size_t first = page_index(start_of(depth));
  const std::size_t whole = page_index(depth);
  table.begin_at(first);
  if (depth == 0) return;
  std::vector<WindowPageId> pages(page_index(depth - 1) + 1 - first);
  NodeId at = node;
  for (std::size_t i = first + pages.size(); i-- > first;) {
    at = tree_.covering(at, std::min(depth_of(i) + page_size_, depth));
    pages[i - first] = place(at, i);
    assert(pages[i - first] != kHole);
  }
  for (std::size_t i = first; i < whole; ++i) table.push_back(hold(pages[i - first]));
  if (depth_of(whole) < depth) table.source = hold(pages.back());
}

void WindowComponent::use(const WindowTable& table) {
  std::vector<WindowPageId> all(table.ids().begin(), table.ids().end());
  if (table.source) all.push_back(table.source->id());
  for (const WindowPageId page : all) {
    Page& record = page_at(page);
    record.last_used = tree_.clock();
    ++record.uses;
    EntryInfo used = info(page);
    used.stands_for_another |= page != all.back();  // it is one use
    policy_.used({kind_, index_of(page)}, used);
  }
}

void WindowComponent::let_go(WindowTable& table, Depth depth) {
  for (WindowRef& page : table.take_front(page_index(start_of(depth)))) give_back(std::move(page));
}

void WindowComponent::let_go_source(WindowTable& table) {
  if (!table.source) return;
  WindowRef source = std::move(*table.source);
  table.source.reset();
  give_back(std::move(source));
}

void WindowComponent::let_go_all(WindowTable& table) {
  let_go_source(table);
  for (WindowRef& page : table.take_front(table.end())) give_back(std::move(page));
}

void WindowComponent::attach(NodeId node, Depth to, WindowTable& table) {
  // What the next deeper node that has a place of this index has there.
  std::optional<std::size_t> deeper_index;
  WindowPageId deeper = kHole;
  for (NodeId at = node; !tree_[at].is_root() && tree_[at].end > depth_of(table.first());
       at = tree_[at].parent) {
    const Node& covering = tree_[at];
    const std::size_t first = std::max(first_page(covering), table.first());
    for (std::size_t i = page_index(std::min(covering.end, to) - 1) + 1; i-- > first;) {
      const WindowPageId found = place(at, i);
      const Depth page_end = depth_of(i) + page_size_;
      const bool same = deeper_index == i && deeper != kHole;
      if (found == kHole && same) {
        set(at, i, deeper);
      } else if (found == kHole && to >= std::min(page_end, covering.end)) {
        // The lease's own may be further up, where others had none.
        const WindowPageId mine = table[i].id();
        if (page_at(mine).node == kNoNode) {
          table[i].share(false).detach();
        } else {
          clear(mine);
        }
        page_at(mine).node = at;
        page_at(mine).index = static_cast<std::uint32_t>(i);
        set(at, i, mine);
      } else if (found != kHole && deeper_index != i && to >= page_end && found != table[i].id()) {
        give_back(table.replace(i, hold(found)));
      }
      deeper_index = i;
      deeper = place(at, i);
    }
  }
}

// ---- What happens to nodes

void WindowComponent::make_room(NodeId node) {
  pages_.grow_to(index_of(node) + std::size_t{1});
  counts_.grow_to(index_of(node) + std::size_t{1});
}

void WindowComponent::added(NodeId node, Holding&) {
  make_room(node);
  pages_[index_of(node)].resize(0, page_count(tree_[node]));
  std::ranges::fill(places(node), kHole);
  counts_[index_of(node)] = 0;
}

void WindowComponent::grown(NodeId leaf, Depth old_end, Holding& from) {
  const WindowTable& table = static_cast<WindowTable&>(from);
  const std::size_t old_count = page_index(old_end - 1) + 1 - first_page(tree_[leaf]);
  pages_[index_of(leaf)].resize(old_count, page_count(tree_[leaf]));
  std::ranges::fill(places(leaf).subspan(old_count), kHole);
  // A page that the leaf ended inside of has no more than it did, unless it is the lease's.
  const std::size_t index = page_index(old_end);
  if (depth_of(index) == old_end) return;
  const WindowPageId last = place(leaf, index);
  if (last != kHole && !(table.has(index) && table[index].id() == last))
    take_out(leaf, index, true);
}

void WindowComponent::split(NodeId upper, NodeId node) {
  make_room(upper);
  const std::size_t moved = page_count(tree_[upper]);
  const std::size_t left = page_count(tree_[node]);
  const bool inside = tree_[upper].end % page_size_ != 0;
  Run<WindowPageId> all = std::move(pages_[index_of(node)]);
  const std::span<const WindowPageId> both(all.data(), moved + left - inside);
  pages_[index_of(upper)].assign(both.first(moved));
  pages_[index_of(node)].assign(both.last(left));
  for (const WindowPageId page : both.first(both.size() - left)) {
    if (page != kHole && page_at(page).node == node) page_at(page).node = upper;
  }
  const auto present = [](WindowPageId page) { return page != kHole; };
  counts_[index_of(upper)] =
      static_cast<std::uint32_t>(std::ranges::count_if(places(upper), present));
  counts_[index_of(node)] =
      static_cast<std::uint32_t>(std::ranges::count_if(places(node), present));
}

void WindowComponent::set(NodeId node, std::size_t index, WindowPageId page) {
  place(node, index) = page;
  ++counts_[index_of(node)];
}

void WindowComponent::clear(WindowPageId page) {
  const std::size_t index = page_at(page).index;
  for (NodeId at = page_at(page).node; at != kNoNode;) {
    const NodeId next = next_with(page, at, index);
    place(at, index) = kHole;
    --counts_[index_of(at)];
    at = next;
  }
}

void WindowComponent::take_out(NodeId node, std::size_t index, bool superseded) {
  const WindowPageId page = place(node, index);
  assert(page_at(page).node == node);
  const NodeId next = next_with(page, node, index);
  place(node, index) = kHole;
  --counts_[index_of(node)];
  page_at(page).node = next;
  if (next != kNoNode) {
    put(page);
    return;
  }
  dropped_ += !superseded;
  leave_tree(page, !superseded);
}

void WindowComponent::leave_tree(WindowPageId page, bool evicted) {
  policy_.erase({kind_, index_of(page)}, evicted);
  page_at(page) = {};
  const WindowRef last = pool_.adopt(page);
}

void WindowComponent::cutting(NodeId leaf, Depth end) {
  const std::size_t first = first_page(tree_[leaf]);
  const std::size_t count = page_count(tree_[leaf]);
  const std::size_t left = page_index(end - 1) + 1 - first;
  for (std::size_t i = left; i < count; ++i) {
    if (places(leaf)[i] != kHole) take_out(leaf, first + i, false);
  }
  pages_[index_of(leaf)].resize(count, left);
}

void WindowComponent::removing(NodeId leaf) {
  const std::size_t first = first_page(tree_[leaf]);
  const std::size_t count = page_count(tree_[leaf]);
  for (std::size_t i = 0; i < count; ++i) {
    if (places(leaf)[i] != kHole) take_out(leaf, first + i, false);
  }
  pages_[index_of(leaf)] = {};
}

void WindowComponent::changed(NodeId node) {
  if (counts_[index_of(node)] == 0) return;
  if (const WindowPageId last = places(node).back(); last != kHole) put(last);
}

void WindowComponent::evict(std::uint32_t slot, std::uint32_t /*wanted*/) {
  const WindowPageId page{slot};
  const NodeId node = page_at(page).node;
  const std::size_t index = page_at(page).index;
  clear(page);
  leave_tree(page, true);
  ++dropped_;
  put_beside(node, index - first_page(tree_[node]));
  tree_.changed(node);
  tree_.prune(node, true);
}

// ---- Checks

std::size_t WindowComponent::metadata_bytes() const {
  return pages_.metadata_bytes() + counts_.metadata_bytes();
}

std::optional<std::string> WindowComponent::verify(std::span<const LeaseView> leases) const {
  std::vector<SlotPool<WindowPageId>::Use> uses(pool_.capacity());
  for (const LeaseView& lease : leases) {
    const WindowTable& table = static_cast<const WindowTable&>(*lease.holdings[kind_]);
    const auto pinned = [&uses](const WindowRef& page) {
      ++uses[index_of(page.id())].references;
      ++uses[index_of(page.id())].pins;
      return page.pinned();
    };
    for (std::size_t i = table.first(); i < table.end(); ++i) {
      if (!pinned(table[i]) || table[i].id() != table.ids()[i - table.first()])
        return "a window table is wrong";
    }
    if (table.source && !pinned(*table.source)) return "a window's source is not pinned";
  }

  const NodeStore& nodes = tree_.nodes();
  std::vector<std::uint32_t> found(pool_.capacity());
  for (std::uint32_t i = 0; i < nodes.bound(); ++i) {
    const NodeId id{i};
    if (!nodes.exists(id) || nodes[id].is_root()) continue;
    std::uint32_t count = 0;
    const std::span<const WindowPageId> all = places(id);
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (all[p] == kHole) continue;
      ++count;
      ++found[index_of(all[p])];
      if (page_at(all[p]).node == kNoNode || page_at(all[p]).index != first_page(nodes[id]) + p)
        return "a window page does not know where it is";
    }
    if (count != counts_[i]) return "the count of a node's window pages is wrong";
  }
  for (std::uint32_t slot = 0; slot < records_.size(); ++slot) {
    const WindowPageId page{slot};
    const Page& record = records_[slot];
    if (record.node == kNoNode) {
      if (found[slot] > 0) return "a window page is where it does not know of";
      continue;
    }
    ++uses[slot].references;
    std::uint32_t nodes_with_it = 0;
    for (NodeId at = record.node; at != kNoNode; at = next_with(page, at, record.index)) {
      if (!nodes.exists(at) || places(at)[record.index - first_page(nodes[at])] != page)
        return "a window page is not where it should be";
      ++nodes_with_it;
    }
    if (nodes_with_it != found[slot]) return "nodes that have a window page are apart";
  }
  if (auto broken = pool_.verify(uses)) return "window pages: " + *broken;
  return std::nullopt;
}

}  // namespace stemma
