#pragma once
// The KV of the attention layers with a sliding window, in pages of their own.
//
// To go on from a depth such layers need only the tokens of one window before
// it. So a path may have holes: a depth can be restored if every page that
// holds one of the `window` tokens before it is there. While memory is idle no
// page goes and every depth can be resumed; when it is short, single pages go.
//
// Which pages a node has. The page of index i on a path holds the depths
// [i * page_size, (i + 1) * page_size) of that path. A node that covers
// [start, end) has a place for each index from start / page_size to
// (end - 1) / page_size, with a page or a hole. A page in a node's place holds
// all depths from its first one on that the node and its ancestors cover.
// Nodes that follow each other inside a page may have the same one, as after a
// split: then all between them have it too. The deepest of them is the page's
// node; the tree has one reference to a page, however many nodes have it.
//
// Nothing else is asked of paths: a place may be empty at any time, and a page
// leaves the tree when its tokens go, also while a lease has it; the lease keeps
// it. The page that a lease has filled in part is put into the tree where the
// path ends there too; where the path goes on, the place stays as it is.
//
// An entry is a page that no lease has; its slot is the page. So every page
// that only the tree references can be evicted. The pages of the window before a
// path's end, a fork or a checkpoint are worth what computing that depth again
// costs, all together; others, the tokens they hold; those that serve no depth,
// nothing. Inside a path a page counts as unused until somebody goes on from its
// window, however new it is. Pages are weighed when they are let go and when
// pages beside them go; else what was said of them stays, since a page's worth
// depends on all within a window of it.
//
// Threads: none; the cache's thread owns it. Costs: to weigh a page takes O(w +
// holes before it) steps of a few bytes, w being the pages of a window; to evict
// or let go one, O(log entries) and a weighing, amortized. 24 bytes a page from
// the start, 4 for each place of a node.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cache/chunked.h"
#include "cache/component.h"
#include "cache/cost_model.h"
#include "cache/run.h"
#include "cache/slot_pool.h"
#include "cache/tree.h"

namespace stemma {

using WindowRef = SlotPool<WindowPageId>::Ref;

// A lease's window pages, all pinned: those of the indices [first(), end()),
// which hold its window and what it computes next. Pages that were let go leave
// at the front.
class WindowTable final : public Holding {
 public:
  std::size_t first() const { return first_; }
  std::size_t end() const { return first_ + refs_.size(); }
  bool has(std::size_t index) const { return index >= first_ && index < end(); }
  const WindowRef& operator[](std::size_t index) const { return refs_[index - first_]; }
  std::span<const WindowPageId> ids() const { return ids_; }

  // Of an empty one: where it begins.
  void begin_at(std::size_t index) { first_ = index; }
  void push_back(WindowRef page) {
    ids_.push_back(page.id());
    refs_.push_back(std::move(page));
  }
  // Returns what was there.
  WindowRef replace(std::size_t index, WindowRef page) {
    ids_[index - first_] = page.id();
    return std::exchange(refs_[index - first_], std::move(page));
  }
  // The pages of indices below `index`.
  std::vector<WindowRef> take_front(std::size_t index);

  // The page that the lease copies from before it runs: the last of its hit, if
  // that ends inside it.
  std::optional<WindowRef> source;

 private:
  std::size_t first_ = 0;
  std::vector<WindowRef> refs_;
  std::vector<WindowPageId> ids_;  // of refs_
};

class WindowComponent final : public Component {
 public:
  // `window` >= 1 tokens.
  WindowComponent(Tree& tree, EvictionPolicy& policy, EntryKind kind, const CostModel& cost,
                  int page_size, Depth window, std::uint32_t pages, std::uint64_t page_bytes,
                  ByteBudget* budget);
  ~WindowComponent() override;

  SlotPool<WindowPageId>& pool() { return pool_; }
  const SlotPool<WindowPageId>& pool() const { return pool_; }

  // Where the window before `depth` begins.
  Depth start_of(Depth depth) const { return depth > window_ ? depth - window_ : 0; }
  // Pages from the first one to that of depth `to` - 1.
  std::size_t pages_to(Depth to) const { return page_index(to + page_size_ - 1); }
  // Pages that a sequence of `length` tokens has at most, all at once, if it is
  // computed in steps of `step`.
  std::size_t most_pages(Depth length, Depth step) const;

  // Puts the pages of the window before `depth`, which can be restored and is
  // on the path to `node`, into an empty table: the whole ones, and the last as
  // the source if `depth` lies inside it. O(w + nodes).
  void share(NodeId node, Depth depth, WindowTable& table);
  // The lease runs: what it shares serves a request. O(w^2), and w calls of the
  // policy.
  void use(const WindowTable& table);

  // The tree covers what the table has of [0, to) on the path to `node`, which
  // covers `to`: puts the table's pages into the holes there, and whole pages
  // of the tree into the place of the table's own. O(pages of the table +
  // nodes).
  void attach(NodeId node, Depth to, WindowTable& table);
  // Whether it has a page wholly before the window of `depth`.
  bool can_let_go(const WindowTable& table, Depth depth) const {
    return table.first() < page_index(start_of(depth)) && !table.ids().empty();
  }
  // Lets go of these, of the source, of all.
  void let_go(WindowTable& table, Depth depth);
  void let_go_source(WindowTable& table);
  void let_go_all(WindowTable& table);

  // The depths in (0, to] on the path to `node`, which covers `to`, whose last
  // page is there. Increasing, apart. O(nodes + pages).
  std::vector<DepthRange> present(NodeId node, Depth to) const;

  // Pages that left the tree since start, for whatever reason but that another
  // took its place.
  std::uint64_t dropped() const { return dropped_; }

  void added(NodeId node, Holding& from) override;
  void grown(NodeId leaf, Depth old_end, Holding& from) override;
  void split(NodeId upper, NodeId node) override;
  void cutting(NodeId leaf, Depth end) override;
  void removing(NodeId leaf) override;
  void changed(NodeId node) override;
  Depth settle(NodeId, Depth, Depth to, Holding&) override { return to; }
  // O(nodes + pages walked): w where all are there.
  Depth restorable(NodeId node, Depth limit) const override { return deepest(node, limit, 0); }
  bool empty(NodeId node) const override { return counts_[index_of(node)] == 0; }
  std::optional<EntryInfo> entry_at(NodeId, Depth) const override { return std::nullopt; }
  double bytes_above(NodeId leaf, Depth from) const override;
  void evict(std::uint32_t slot, std::uint32_t wanted) override;
  std::optional<std::string> verify(std::span<const LeaseView> leases) const override;
  std::size_t metadata_bytes() const override;

 private:
  // Of a page: where it is in the tree, and how it was used.
  struct Page {
    NodeId node = kNoNode;  // the deepest that has it; none: it is not in the tree
    std::uint32_t index = 0;
    std::uint64_t last_used = 0;  // when a request last went on from its window; 0: none did
    std::uint32_t uses = 0;
  };
  static constexpr WindowPageId kHole{0xFFFFFFFF};
  static constexpr std::size_t kStride = 16;  // places that are looked at at once

  std::size_t page_index(Depth depth) const { return static_cast<std::size_t>(depth / page_size_); }
  Depth depth_of(std::size_t index) const { return static_cast<Depth>(index) * page_size_; }
  std::size_t first_page(const Node& node) const { return page_index(node.start); }
  std::size_t page_count(const Node& node) const;
  std::span<WindowPageId> places(NodeId node) {
    return {pages_[index_of(node)].data(), page_count(tree_[node])};
  }
  std::span<const WindowPageId> places(NodeId node) const {
    return {pages_[index_of(node)].data(), page_count(tree_[node])};
  }
  WindowPageId& place(NodeId node, std::size_t index) {
    return pages_[index_of(node)].data()[index - first_page(tree_[node])];
  }
  // The node above `node` that has the same page of this index; none if there is none.
  NodeId next_with(WindowPageId page, NodeId node, std::size_t index) const;
  Page& page_at(WindowPageId page) { return records_[index_of(page)]; }
  const Page& page_at(WindowPageId page) const { return records_[index_of(page)]; }
  bool held(WindowPageId page) const { return pool_.use(page).pins > 0; }

  // The deepest depth in (above, limit] on the path to `node`, which covers `limit`, whose window
  // is there; at most `above` if there is none.
  Depth deepest(NodeId node, Depth limit, Depth above) const;
  static bool all_holes(const WindowPageId* pages);
  static bool no_holes(const WindowPageId* pages);

  WindowRef hold(WindowPageId page);
  void give_back(WindowRef page);
  EntryInfo info(WindowPageId page) const;
  void put(WindowPageId page);
  // How many places directly before or behind one have pages; one more than a
  // window's at most.
  std::size_t run_before(NodeId node, std::size_t place) const;
  std::size_t run_behind(NodeId node, std::size_t place) const;
  // What the pages beside a place that became a hole are worth now.
  void put_beside(NodeId node, std::size_t place);

  void make_room(NodeId node);
  void set(NodeId node, std::size_t index, WindowPageId page);
  // Empties the places of all nodes that have it. The tree's reference stays.
  void clear(WindowPageId page);
  // A node that is a page's deepest loses it.
  void take_out(NodeId node, std::size_t index, bool superseded);
  void leave_tree(WindowPageId page, bool evicted);

  Tree& tree_;
  EvictionPolicy& policy_;
  const EntryKind kind_;
  const CostModel cost_;
  const int page_size_;
  const Depth window_;
  const std::size_t window_pages_;  // of a window that ends with a page
  SlotPool<WindowPageId> pool_;
  std::vector<Page> records_;         // by page
  Chunked<Run<WindowPageId>> pages_;  // by node
  Chunked<std::uint32_t> counts_;     // by node: pages that are not holes
  std::uint64_t dropped_ = 0;
};

}  // namespace stemma
