#pragma once
// What a Cache owns: pools, tree, namespaces and the list of live leases. It decides who waits,
// what is reused and what is evicted for whom; the tree knows what there is.
//
// Threads: none. Lists: leases_ holds every LeaseState that took part in acquire() and has not
// ended, in order of acquisition.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/cache.h"
#include "cache/tree.h"

namespace stemma {

class CacheImpl {
 public:
  CacheImpl(const CacheConfig& config, std::unique_ptr<EvictionPolicy> tails,
            std::unique_ptr<EvictionPolicy> checkpoints);

  NamespaceId namespace_for(std::string_view key);
  Lookup lookup(NamespaceId ns, std::span<const Token> tokens) const;
  std::variant<Lease, WaitReason> acquire(const AcquireRequest& request);
  bool fits(Depth length) const;
  void flush();
  CacheStats stats() const;
  std::optional<std::string> verify() const;

  // For LeaseState.
  const CacheConfig& config() const { return config_; }
  Tree& tree() { return tree_; }
  bool has_pages() const { return config_.page_count > 0; }
  bool has_rows() const { return config_.row_count > 0; }
  std::size_t pages_for(Depth length) const;
  // Appends `count` free pages to `table`, evicting if need be: all of them, or none and false.
  bool take_pages(std::size_t count, std::vector<PageRef>& table);
  // A free row; evicts a checkpoint if need be.
  std::optional<RowRef> take_row();
  // A row for a mark, as Lease::prepare_marks says.
  std::optional<RowRef> row_for_mark(MarkSource source);
  double free_row_share() const {
    return has_rows() ? double{1} * rows_.free() / rows_.capacity() : 0;
  }
  void count_marks(std::size_t taken, std::size_t skipped);
  void began(LeaseState& lease) { leases_.push_back(&lease); }
  void ended(LeaseState& lease) { std::erase(leases_, &lease); }
  // Aborts with the broken invariant in checked builds; else does nothing.
  void check() const;

 private:
  // What a prompt finds in the tree.
  struct Found {
    Node* node;
    Lookup lookup;
  };
  Found find(NamespaceId ns, std::span<const Token> tokens) const;
  // The deepest depth <= `limit` on the path to `node` from which a model can go on.
  Depth usable_depth(Node& node, Depth limit) const;
  // Whether to wait for a live lease; if so, that lease will take a checkpoint where the prompts
  // part.
  bool wait_for_prefix(const AcquireRequest& request, Depth usable);
  // A lease on the first `matched` tokens of `found` with the state at `hit`, and everything
  // reserved.
  std::variant<std::unique_ptr<LeaseState>, WaitReason> reserve(const AcquireRequest& request,
                                                                const Found& found, Depth matched,
                                                                Depth hit);
  void count_lease(const LeaseState& lease);

  const CacheConfig config_;
  SlotPool<PageId> pages_;
  SlotPool<RowId> rows_;
  Tree tree_;  // after the pools: its references go first
  std::map<std::string, NamespaceId, std::less<>> namespaces_;
  std::vector<Node*> roots_;  // by namespace
  std::vector<LeaseState*> leases_;
  CacheStats counters_{};  // the part that counts since start
};

}  // namespace stemma
