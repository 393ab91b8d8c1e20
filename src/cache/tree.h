#pragma once
// The prefix tree: which tokens are cached, in which pages their KV lies, at which depths there are
// checkpoints, and what of it may go.
//
// Nodes and pages. A node covers the depths [start, end). It references one page for every page
// index from start / page_size to (end - 1) / page_size; the page of index i holds the KV of the
// depths [i * page_size, min((i + 1) * page_size, end)) of the node's path, also of those that an
// ancestor covers. So where nodes meet inside a page, the page of the deepest node on a path is the
// one to use. Three rules keep the count of evictable pages exact, that is, make every page that
// only the tree references reachable by eviction:
//  a. A node that ends inside a page and has children shares that page with one of its children.
//  b. The whole pages of a lease's table below its pin are those of the deepest nodes on its path.
//  c. Where a pin lies inside a page, that page of the pinned node is in the lease's table, or is
//     the source of the lease's copy until that is made.
//
// Pins. A lease pins one node up to one depth, which pins the path above. Only leaves lose pages,
// from their end and not below a pin; so ancestors need no counts, and pinning costs O(log pins of
// the node).
//
// Trees without pages (models without attention) have tokens and checkpoints only: there a leaf
// that has neither a checkpoint nor a pin is dropped, which bounds the tree.
//
// Threads: none; the cache's thread owns it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/eviction_policy.h"
#include "cache/slot_pool.h"
#include "core/ids.h"

namespace stemma {

using PageRef = SlotPool<PageId>::Ref;
using RowRef = SlotPool<RowId>::Ref;

struct Node;

// What a lease keeps of the tree: `node` covers `depth` (start < depth <= end), or is the root and
// depth is 0.
struct Pin {
  Node* node = nullptr;
  Depth depth = 0;
};

struct Checkpoint {
  Depth depth;
  RowRef row;
  EntryId entry;
  std::uint64_t last_used;
};

struct Node {
  Node* parent = nullptr;  // null for a root
  Depth start = 0;
  Depth end = 0;                                              // > start, except for a root
  std::vector<Token> tokens;                                  // [start, end)
  std::vector<PageRef> pages;                                 // never pinned
  std::vector<Checkpoint> checkpoints;                        // increasing depths in (start, end]
  std::unordered_map<Token, std::unique_ptr<Node>> children;  // by first token
  std::set<std::pair<Depth, Pin*>> pins;
  EntryId tail{};  // the entry of its last page
  std::uint64_t last_used = 0;

  bool leaf() const { return children.empty(); }
};

// Number of equal tokens at the start of both. O(result).
Depth common_prefix(std::span<const Token> a, std::span<const Token> b);

class Tree {
 public:
  struct Match {
    Node* node;     // the deepest that shares a token with the prompt; else the root
    Depth matched;  // tokens shared
  };

  struct Counts {
    std::uint64_t nodes = 0;  // without roots
    std::uint64_t tokens = 0;
    std::uint64_t checkpoints = 0;
    std::uint64_t dropped_checkpoints = 0;  // since start
  };

  // `page_size` is 0 for a tree without pages. `tails` orders leaves, `checkpoints` checkpoints.
  Tree(int page_size, std::unique_ptr<EvictionPolicy> tails,
       std::unique_ptr<EvictionPolicy> checkpoints);
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // A new namespace's root. O(1).
  Node& add_root();

  // The largest depth <= `depth` that ends a page; `depth` itself in a tree without pages.
  Depth whole_pages(Depth depth) const {
    return page_size_ > 0 ? depth / page_size_ * page_size_ : depth;
  }

  // Changes nothing. O(matched).
  Match match(Node& root, std::span<const Token> tokens) const;

  // The deepest checkpoint on the path to `node` at a depth <= `limit`; null if there is none.
  // Valid until the tree changes. O(nodes on the path).
  static Checkpoint* deepest_checkpoint(Node& node, Depth limit);

  // Depths above `from` and up to `to` on the path to `node` that have a checkpoint, increasing.
  std::vector<Depth> checkpoint_depths(const Node& node, Depth from, Depth to) const;

  // The node on the path to `node` that covers `depth` <= node.end; the root for 0. O(nodes
  // passed).
  static Node& covering(Node& node, Depth depth);

  // A new use of the path to `node`, and of a checkpoint: they are evicted later. O(nodes on the
  // path).
  void touch(Node& node);
  void touch(Checkpoint& checkpoint);

  // Sets a pin that is not set; moves one that is to a depth on the same path; removes it.
  void pin(Pin& pin, Node& node, Depth depth);
  void lower(Pin& pin, Depth depth);
  void unpin(Pin& pin);

  // Puts the pages of the path to `node` into `table`, pinned: those of the indices from `first` on
  // that lie wholly below `depth`. `table` has an entry for each index below `first` at least.
  // O(entries + nodes).
  void share_pages(const Node& node, Depth depth, std::size_t first,
                   std::vector<PageRef>& table) const;

  // The page of the path to `node` that holds the KV at depth - 1, which `node` covers. Pinned.
  PageRef share_page(const Node& node, Depth depth) const;

  // Makes the tree cover `tokens`, of which [0, pin.depth) is the pinned path, with KV in `table`;
  // pages that were there already replace those of the table, pinned. Moves the pin as far as rule
  // c allows. Returns the node that covers depth tokens.size(). O(tokens beyond the pin).
  Node& extend(Pin& pin, std::span<const Token> tokens, std::vector<PageRef>& table);

  // Adds a checkpoint on the path to `node`; drops the row if that depth has one. Depths at or
  // below 0 have none.
  void attach(Node& node, Depth depth, RowRef row);

  // A pinned reference to a checkpoint's row: it is no candidate for eviction until its entry is
  // released.
  RowRef hold(Checkpoint& checkpoint);
  // The reference that hold() gave is gone. The checkpoint may be gone as well.
  void release(EntryId checkpoint);

  // Takes pages from the end of the leaf that the policy names, until that has freed `pages` or
  // nothing of it is left to take. False if there is no such leaf.
  bool evict_tail(std::uint32_t pages);
  // Drops the checkpoint that the policy names. False if there is none.
  bool evict_checkpoint();

  const Counts& counts() const { return counts_; }

  // Checks the rules above and adds the tree's references to `references`. The text of the first
  // rule that fails. O(everything).
  struct References {
    std::vector<SlotPool<PageId>::Use> pages;  // by page
    std::vector<SlotPool<RowId>::Use> rows;    // by row
  };
  std::optional<std::string> verify(const SlotPool<PageId>& pages, References& references) const;

 private:
  struct Place {
    Node* node;
    Depth depth;
  };

  std::size_t page_index(Depth depth) const { return static_cast<std::size_t>(depth / page_size_); }
  std::size_t first_page(const Node& node) const { return page_index(node.start); }
  bool ends_inside_page(const Node& node) const {
    return page_size_ > 0 && node.end % page_size_ != 0;
  }
  // Where a leaf ends once it has lost its last page.
  Depth end_without_last_page(const Node& node) const;
  EntryId next_entry() { return EntryId{++last_entry_}; }

  void set_pin(Pin& pin, Node& node, Depth depth);
  Node& split(Node& node, Depth depth);
  Node& add_child(Node& parent, std::span<const Token> tokens, std::span<const PageRef> table);
  void grow(Node& leaf, std::span<const Token> tokens, std::span<const PageRef> table);
  void replace_last_page(Node& node, const PageRef& page);
  void drop_checkpoints_above(Node& node, Depth depth);
  void remove(Node& node);
  // Brings the tail's entry up to date after a change of the node's pins, children or length.
  void update_tail(Node& node);
  // In a tree without pages: drops the leaf, and then its ancestors, that have nothing left to
  // offer.
  void prune(Node& node);
  EntryInfo tail_info(const Node& node) const;
  static EntryInfo checkpoint_info(Node& node, const Checkpoint& checkpoint);

  const int page_size_;
  std::unique_ptr<EvictionPolicy> tail_policy_;
  std::unique_ptr<EvictionPolicy> checkpoint_policy_;
  std::vector<std::unique_ptr<Node>> roots_;
  std::unordered_map<EntryId, Node*> tails_;              // leaves in tail_policy_
  std::unordered_map<EntryId, Place> checkpoint_places_;  // all checkpoints
  std::uint64_t last_entry_ = 0;
  std::uint64_t clock_ = 0;
  Counts counts_;
};

}  // namespace stemma
