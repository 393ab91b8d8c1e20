// Checks of every invariant that cache.h, slot_pool.h and tree.h state, for tests and checked
// builds.

#include <cstdio>
#include <cstdlib>
#include <set>

#include "cache/cache_impl.h"
#include "cache/lease_state.h"

namespace stemma {

namespace {

std::string where(const Node& node) {
  return "node [" + std::to_string(node.start) + ", " + std::to_string(node.end) + "): ";
}

template <class Id>
std::optional<std::string> compare(const SlotPool<Id>& pool,
                                   const std::vector<typename SlotPool<Id>::Use>& uses,
                                   const char* what) {
  std::uint32_t free = 0;
  std::uint32_t pinned = 0;
  for (std::uint32_t slot = 0; slot < pool.capacity(); ++slot) {
    const auto use = pool.use(static_cast<Id>(slot));
    if (!(use == uses[slot])) {
      return std::string(what) + " " + std::to_string(slot) + " has " +
             std::to_string(use.references) + " references, " + std::to_string(use.pins) +
             " pinned; found were " + std::to_string(uses[slot].references) + " and " +
             std::to_string(uses[slot].pins);
    }
    free += use.references == 0;
    pinned += use.pins > 0;
  }
  if (free != pool.free() || pinned != pool.pinned() ||
      pool.free() + pool.evictable() + pool.pinned() != pool.capacity()) {
    return std::string(what) + "s: the counts of free and pinned ones are wrong";
  }
  return std::nullopt;
}

template <class Id, class Uses>
void count(const typename SlotPool<Id>::Ref& ref, Uses& uses) {
  auto& use = uses[index_of(ref.id())];
  ++use.references;
  use.pins += ref.pinned();
}

}  // namespace

std::optional<std::string> Tree::verify(const SlotPool<PageId>& pages,
                                        References& references) const {
  std::vector<const Node*> nodes;  // parents before children
  for (const auto& root : roots_) nodes.push_back(root.get());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& [token, child] : nodes[i]->children) {
      if (child->parent != nodes[i] || child->start != nodes[i]->end)
        return where(*child) + "not below its parent";
      if (child->tokens.empty() || child->tokens.front() != token)
        return where(*child) + "filed under another token";
      nodes.push_back(child.get());
    }
  }

  // Deepest pin on or below each node; what lies below it cannot be evicted.
  std::unordered_map<const Node*, Depth> pinned;
  std::set<PageId> locked;
  Counts counts;
  std::size_t evictable_tails = 0;
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const Node& node = **at;
    if (!node.pins.empty()) pinned[&node] = std::max(pinned[&node], node.pins.rbegin()->first);
    if (pinned.contains(&node) && node.parent) {
      pinned[node.parent] = std::max(pinned[node.parent], node.parent->end);
    }
    for (const auto& [depth, pin] : node.pins) {
      if (pin->node != &node || pin->depth != depth)
        return where(node) + "a pin does not point back";
      if (node.parent ? depth <= node.start || depth > node.end : depth != 0)
        return where(node) + "pinned outside";
    }
    if (!node.parent) {
      if (node.end != 0 || !node.pages.empty() || !node.checkpoints.empty())
        return "a root holds something";
      continue;
    }

    ++counts.nodes;
    counts.tokens += node.tokens.size();
    counts.checkpoints += node.checkpoints.size();
    if (node.start >= node.end ||
        node.tokens.size() != static_cast<std::size_t>(node.end - node.start)) {
      return where(node) + "has " + std::to_string(node.tokens.size()) + " tokens";
    }
    Depth before = node.start;
    for (const Checkpoint& checkpoint : node.checkpoints) {
      if (checkpoint.depth <= before || checkpoint.depth > node.end)
        return where(node) + "checkpoint out of place";
      before = checkpoint.depth;
      const auto place = checkpoint_places_.find(checkpoint.entry);
      if (place == checkpoint_places_.end() || place->second.node != &node ||
          place->second.depth != checkpoint.depth) {
        return where(node) + "checkpoint at " + std::to_string(checkpoint.depth) +
               " is not on the list";
      }
      count<RowId>(checkpoint.row, references.rows);
    }

    if (page_size_ == 0) {
      if (node.leaf() && node.pins.empty() && node.checkpoints.empty())
        return where(node) + "should have been pruned";
      continue;
    }
    if (node.pages.size() != page_index(node.end - 1) - first_page(node) + 1) {
      return where(node) + "has " + std::to_string(node.pages.size()) + " pages";
    }
    const bool shares_last = ends_inside_page(node) && !node.leaf();
    if (shares_last) {
      bool found = false;
      for (const auto& [token, child] : node.children) {
        found |= child->pages.front().id() == node.pages.back().id();
      }
      if (!found) return where(node) + "shares its last page with no child";
    }
    for (std::size_t i = 0; i < node.pages.size(); ++i) {
      count<PageId>(node.pages[i], references.pages);
      if (node.pages[i].pinned()) return where(node) + "pins a page";
      const Depth page_start = static_cast<Depth>(first_page(node) + i) * page_size_;
      const bool counted_at_child = shares_last && i + 1 == node.pages.size();
      if (pinned.contains(&node) && pinned[&node] > page_start && !counted_at_child)
        locked.insert(node.pages[i].id());
    }
    const bool evictable = node.leaf() && (node.pins.empty() || node.pins.rbegin()->first <=
                                                                    end_without_last_page(node));
    const auto tail = tails_.find(node.tail);
    if (evictable != (tail != tails_.end()) || (evictable && tail->second != &node)) {
      return where(node) + (evictable ? "is not on the list of evictable tails"
                                      : "is on the list of evictable tails");
    }
    evictable_tails += evictable;
  }

  if (evictable_tails != tails_.size())
    return "the list of evictable tails has entries without a node";
  if (counts.checkpoints != checkpoint_places_.size())
    return "the list of checkpoints has entries without a node";
  if (counts.nodes != counts_.nodes || counts.tokens != counts_.tokens ||
      counts.checkpoints != counts_.checkpoints) {
    return "the counts of nodes, tokens and checkpoints are wrong";
  }
  for (const PageId page : locked) {
    if (pages.use(page).pins == 0)
      return "page " + std::to_string(index_of(page)) + " counts as evictable and is not";
  }
  return std::nullopt;
}

void LeaseState::count_references(Tree::References& references) const {
  for (const PageRef& page : pages_) count<PageId>(page, references.pages);
  if (page_source_) count<PageId>(*page_source_, references.pages);
  if (row_) count<RowId>(*row_, references.rows);
  if (row_source_) count<RowId>(*row_source_, references.rows);
  for (const RowMark& mark : prepared_) count<RowId>(mark.row, references.rows);
  for (const RowMark& mark : written_) count<RowId>(mark.row, references.rows);
}

std::optional<std::string> LeaseState::verify() const {
  if (pages_.size() != page_ids_.size() || pages_.size() < cache_.pages_for(computed_))
    return "a lease lacks pages";
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (!pages_[i].pinned() || pages_[i].id() != page_ids_[i])
      return "a lease's page table is wrong";
  }
  Depth depth = pin_.depth;
  for (const Node* node = pin_.node; node->parent; node = node->parent) {
    for (; depth > node->start; --depth) {
      if (node->tokens[depth - 1 - node->start] != tokens_[depth - 1])
        return "a lease's pin is on another path";
    }
  }
  if (!cache_.has_pages()) return std::nullopt;

  std::vector<PageRef> path;
  cache_.tree().share_pages(*pin_.node, pin_.depth, 0, path);
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i].id() != page_ids_[i])
      return "a lease's whole page " + std::to_string(i) + " is not the tree's";
  }
  if (cache_.tree().whole_pages(pin_.depth) != pin_.depth) {
    const PageId last = cache_.tree().share_page(*pin_.node, pin_.depth).id();
    if (last != (page_source_ ? page_source_->id() : page_ids_[path.size()]))
      return "a lease pins a page that it does not use";
  }
  return std::nullopt;
}

std::optional<std::string> CacheImpl::verify() const {
  Tree::References references{std::vector<SlotPool<PageId>::Use>(pages_.capacity()),
                              std::vector<SlotPool<RowId>::Use>(rows_.capacity())};
  if (auto broken = tree_.verify(pages_, references)) return broken;
  for (const LeaseState* lease : leases_) {
    if (auto broken = lease->verify()) return broken;
    lease->count_references(references);
  }
  if (auto broken = compare(pages_, references.pages, "page")) return broken;
  return compare(rows_, references.rows, "row");
}

void CacheImpl::check() const {
#ifdef STEMMA_CHECKED
  if (const auto broken = verify()) {
    std::fprintf(stderr, "cache: %s\n", broken->c_str());
    std::abort();
  }
#endif
}

}  // namespace stemma
