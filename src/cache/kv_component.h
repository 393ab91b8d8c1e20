#pragma once
// The KV of all attention layers with full attention, in pages.
//
// Which pages a node has. The page of index i on a path holds the KV of the
// depths [i * page_size, (i + 1) * page_size) of that path, as far as it is
// covered, also of those that an ancestor covers. A node covers [start, end)
// and has the pages of the indices start / page_size to (end - 1) / page_size;
// but a node with children that ends inside a page does not have that one: the
// first page of each child holds its depths too. So on a path each index has
// one page.
//
// Only leaves lose pages, from their end. Two rules keep the count of evictable
// pages exact, that is, make every page that only the tree references reachable
// by eviction:
//  a. The whole pages of a lease's table below its pin are those of its path.
//  b. Where a pin lies inside a page that its node has, that page is in the
//  lease's table, or is the
//     source of the lease's copy until that is made.
//
// An entry is the tail of an unpinned leaf; its slot is the node.
//
// Threads: none; the cache's thread owns it.

#include <memory>
#include <vector>

#include "cache/chunked.h"
#include "cache/component.h"
#include "cache/cost_model.h"
#include "cache/run.h"
#include "cache/slot_pool.h"
#include "cache/tree.h"

namespace stemma {

using PageRef = SlotPool<PageId>::Ref;

// A lease's pages, by index: those of the tree wholly below its pin, its own
// above. All pinned.
class PageTable final : public Holding {
 public:
  std::size_t size() const { return refs_.size(); }
  const PageRef& operator[](std::size_t index) const { return refs_[index]; }
  std::span<const PageId> ids() const { return ids_; }

  void reserve(std::size_t count) {
    refs_.reserve(count);
    ids_.reserve(count);
  }
  void push_back(PageRef page) {
    ids_.push_back(page.id());
    refs_.push_back(std::move(page));
  }
  void replace(std::size_t index, PageRef page) {
    ids_[index] = page.id();
    refs_[index] = std::move(page);
  }

  // The page that the lease copies from before it runs: the last, partly shared
  // one.
  std::optional<PageRef> source;

 private:
  std::vector<PageRef> refs_;
  std::vector<PageId> ids_;  // of refs_
};

class KvComponent final : public Component {
 public:
  KvComponent(Tree& tree, EvictionPolicy& policy, EntryKind kind, const CostModel& cost,
              int page_size, std::uint32_t pages, std::uint64_t page_bytes, ByteBudget* budget);
  ~KvComponent() override;

  int page_size() const { return page_size_; }
  SlotPool<PageId>& pool() { return pool_; }
  const SlotPool<PageId>& pool() const { return pool_; }

  // Pages for so many tokens.
  std::size_t pages_for(Depth length) const {
    return (static_cast<std::size_t>(length) + page_size_ - 1) / page_size_;
  }
  // The largest depth <= `depth` that ends a page.
  Depth whole_pages(Depth depth) const { return depth / page_size_ * page_size_; }

  // Puts the pages of the path to `node` into `table`: those of the indices
  // from `first` on that lie wholly below `depth`. The table has an entry for
  // each index below `first` at least. O(pages + nodes).
  void share(NodeId node, Depth depth, std::size_t first, PageTable& table);
  // The page with the KV at depth - 1, which `node` covers. Pinned.
  PageRef share_last(NodeId node, Depth depth);

  // A request goes on from `hit`, which lies in a leaf: a use of its tail if that would not be
  // possible without the last page.
  void use(NodeId leaf, Depth hit);

  void added(NodeId node, Holding& from) override;
  void grown(NodeId leaf, Depth old_end, Holding& from) override;
  void split(NodeId upper, NodeId node) override;
  void cutting(NodeId leaf, Depth end) override;
  void removing(NodeId leaf) override;
  void changed(NodeId node) override;
  Depth settle(NodeId node, Depth pinned, Depth to, Holding& holding) override;
  Depth restorable(NodeId, Depth limit) const override { return limit; }
  bool empty(NodeId) const override { return false; }
  std::optional<EntryInfo> entry_at(NodeId, Depth) const override { return std::nullopt; }
  double bytes_above(NodeId leaf, Depth from) const override;
  void evict(std::uint32_t slot, std::uint32_t wanted) override;
  std::optional<std::string> verify(std::span<const LeaseView> leases) const override;
  std::size_t metadata_bytes() const override;

 private:
  std::size_t page_index(Depth depth) const { return static_cast<std::size_t>(depth / page_size_); }
  std::size_t first_page(const Node& node) const { return page_index(node.start); }
  std::size_t page_count(const Node& node) const;
  // Where a leaf ends once it has lost its last page.
  Depth end_without_last_page(const Node& node) const;
  bool tail_evictable(NodeId node) const;
  EntryInfo tail_info(NodeId node) const;
  void drop(PageId page) { const PageRef last = pool_.adopt(page); }
  PageId keep(const PageRef& page) { return page.share(false).detach(); }

  Tree& tree_;
  EvictionPolicy& policy_;
  const EntryKind kind_;
  const CostModel cost_;
  const int page_size_;
  SlotPool<PageId> pool_;
  Chunked<Run<PageId>> pages_;  // by node; unpinned references
};

}  // namespace stemma
