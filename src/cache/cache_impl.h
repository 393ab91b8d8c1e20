#pragma once
// What a Cache owns: the tree with its components, namespaces and the list of
// live leases. It decides who waits, what is reused and what is evicted for
// whom; the components know what there is.
//
// Threads: none. Lists: leases_ holds every LeaseState that took part in
// acquire() and has not ended, in order of acquisition. keys_ has every key
// that was named and not forgotten; roots_ the namespaces that have been asked
// for and hold something, or did at the last sweep.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "cache/cache.h"
#include "cache/kv_component.h"
#include "cache/state_component.h"
#include "cache/tree.h"
#include "cache/window_component.h"

namespace stemma {

class CacheImpl {
 public:
  CacheImpl(const CacheConfig& config, std::unique_ptr<EvictionPolicy> policy);

  NamespaceId namespace_for(std::string_view key);
  Lookup lookup(NamespaceId ns, std::span<const Token> tokens) const;
  Explanation explain(const AcquireRequest& request) const;
  std::variant<Lease, WaitReason> acquire(const AcquireRequest& request);
  bool fits(Depth length) const;
  void flush();
  Cache::Cooled take_cooled() { return std::exchange(cooled_, {}); }
  CacheStats stats() const;
  std::optional<std::string> verify() const;

  // For LeaseState.
  const CacheConfig& config() const { return config_; }
  Tree& tree() { return tree_; }
  KvComponent* kv() { return kv_ ? &*kv_ : nullptr; }
  WindowComponent* window() { return window_ ? &*window_ : nullptr; }
  StateComponent* states() { return states_ ? &*states_ : nullptr; }
  // Appends `count` free pages to `table`, evicting if need be: all of them, or
  // none and false.
  bool take_pages(std::size_t count, PageTable& table);
  bool take_pages(std::size_t count, WindowTable& table);
  // A free row; evicts if need be.
  std::optional<RowRef> take_row();
  // A row for a mark on the path to `node`, as Lease::prepare_marks says.
  std::optional<RowRef> row_for_mark(NodeId node, const PlannedMark& mark,
                                     const Retention& retention);
  // For a prompt of `length` tokens whose matched path has `taken` checkpoints.
  SnapshotInput snapshot_input(Depth hit, Depth matched, Depth length, std::size_t taken) const;
  void count_marks(std::size_t taken, std::size_t skipped);
  void began(LeaseState& lease) { leases_.push_back(&lease); }
  void ended(LeaseState& lease) { std::erase(leases_, &lease); }
  // Aborts with the broken invariant in checked builds; else does nothing.
  void check() const;

 private:
  // What a prompt finds in the tree.
  struct Found {
    NodeId node;
    Lookup lookup;
  };
  std::optional<NodeId> root_of(NamespaceId ns) const;
  NodeId make_root(NamespaceId ns);
  void forget_empty_namespaces();
  Found find(NodeId root, std::span<const Token> tokens) const;
  // Why the prompt goes no further than `matched` or `usable`, which is less.
  ReuseLimit limit_of(NodeId node, Depth matched, Depth usable,
                      std::span<const Token> tokens) const;
  // `found`, with the reason that the prompt is known in another namespace if
  // that is so.
  Lookup look_elsewhere(NamespaceId ns, std::span<const Token> tokens, Lookup found) const;
  // The most that a namespace other than `ns` has of the tokens; looks at
  // kNamespacesLooked at most.
  Depth matched_elsewhere(NamespaceId ns, std::span<const Token> tokens) const;
  // Whether to wait for a live lease; if so, that lease will take a checkpoint
  // where the prompts part.
  bool wait_for_prefix(const AcquireRequest& request, Depth usable);
  // A lease on the first `matched` tokens of `found` with the state at `hit`,
  // and everything reserved.
  std::variant<std::unique_ptr<LeaseState>, WaitReason> reserve(const AcquireRequest& request,
                                                                const Found& found, Depth matched,
                                                                Depth hit);
  void count_lease(const LeaseState& lease);
  // Slots of each kind.
  struct Demand {
    std::uint64_t pages = 0;
    std::uint64_t window_pages = 0;
    std::uint64_t rows = 0;
  };
  // Whether the budget has the bytes of so many, of those that nothing pinned
  // takes.
  bool budget_fits(const Demand& demand) const;
  // Evicts until `count` slots of a pool can be taken; false if nothing is left
  // to evict.
  template <class Pool>
  bool make_available(Pool& pool, EntryKind kind, std::uint64_t count);
  // take_pages() for any kind; `demand` is `count` of it.
  template <class Pool, class Table>
  bool take_into(Table& table, Pool& pool, EntryKind kind, std::size_t count, const Demand& demand);
  // Slots that nothing pinned takes, counting those that eviction can free.
  template <class Pool>
  static std::uint64_t obtainable(const Pool& pool) {
    return std::uint64_t{pool.free()} + pool.evictable();
  }
  bool cool_other(EntryKind kind);
  void evict(EntryId victim, std::uint32_t wanted);

  const CacheConfig config_;
  const std::unique_ptr<EvictionPolicy> policy_;
  std::optional<ByteBudget> budget_;
  Tree tree_;
  std::optional<KvComponent> kv_;
  std::optional<WindowComponent> window_;
  std::optional<StateComponent> states_;
  std::vector<Component*> components_;  // by EntryKind
  EntryKind kv_kind_ = 0;
  EntryKind window_kind_ = 0;
  EntryKind state_kind_ = 0;
  std::unordered_map<std::string, NamespaceId> keys_;
  std::unordered_map<NamespaceId, NodeId> roots_;
  std::uint32_t last_namespace_ = 0;
  std::size_t sweep_at_ = 128;  // number of keys
  std::vector<LeaseState*> leases_;
  Cache::Cooled cooled_;
  CacheStats counters_{};  // the part that counts since start
};

}  // namespace stemma
