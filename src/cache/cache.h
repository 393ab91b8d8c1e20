#pragma once
// The prefix cache: one tree over attention KV and recurrent state, shared by
// all requests.
//
// It owns who has which page and state row, not the bytes (memory/ has those):
// it needs no tensors and can be embedded alone. Along the tree's paths,
// components keep what a model needs of its past: pages of KV, pages of the KV
// of layers with a sliding window, checkpoints of recurrent states. A request
// works through a Lease.
//
// Invariants (checked after every public call in checked builds, see
// Cache::verify): those of the tree (tree.h), of each component
// (kv_component.h, window_component.h, state_component.h) and of the pools
// (slot_pool.h). Shared pages and checkpoints are immutable: a lease writes
// only depths at or above its own write-from depth, in pages it took itself.
//
// A hit is one depth: the deepest depth <= min(matched, n - 1) at which every
// component of the model can be restored. For models with full attention alone
// that is min(matched, n - 1) itself; with recurrent layers it is a checkpoint's
// depth; with a sliding window, one of which the whole window is there.
//
// A sequence that fits() into an empty cache can always be acquired and grown
// while there is no other lease: where the source of a copy would take the last
// page or row, less is reused.
//
// Threads: one thread drives a Cache and its leases. Costs: acquire is linear
// in the prompt, publish in what is new; an eviction is O(log entries).

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/cost_model.h"
#include "cache/eviction_policy.h"
#include "cache/snapshot_plan.h"
#include "core/ids.h"
#include "core/result.h"

namespace stemma {

// When a sequence's states are stored. SGLang's names.
enum class SchedulerStrategy : std::uint8_t {
  automatic,          // extra_buffer_lazy, which needs the fewest rows for the same
                      // checkpoints
  no_buffer,          // only where a sequence ends; needs one row a sequence
  extra_buffer,       // at marks too; a spare row is reserved for each sequence at
                      // admission
  extra_buffer_lazy,  // at marks too; a row is taken in the step that needs it
};

// "auto", "no_buffer", "extra_buffer", "extra_buffer_lazy".
std::string_view name_of(SchedulerStrategy strategy);

struct CacheConfig {
  int page_size = 16;            // 1 to 256
  std::uint32_t page_count = 0;  // 0 for models without full attention
  std::uint32_t row_count = 0;   // 0 for models without recurrent layers
  // Tokens before the next one that layers with a sliding window look at; 0 for
  // models without such layers. Their pages have page_size tokens too.
  Depth window = 0;
  std::uint32_t window_page_count = 0;
  // A step that takes a lease no more than so many tokens further has window
  // pages from admission on. >= 1.
  Depth window_step = 512;
  // Bytes of a page, a window page and a checkpoint. Policies weigh entries by
  // them.
  std::uint64_t page_bytes = 1;
  std::uint64_t window_page_bytes = 1;
  std::uint64_t row_bytes = 1;
  // One budget for all: then the counts are how many there can be at most, and
  // the split follows what is worth more. 0: pools of their own, each of its
  // own size.
  std::uint64_t budget_bytes = 0;
  // With one budget: so many of the first pages and rows have their memory from the start, as far
  // as it goes, pages first.
  std::uint32_t warm_pages = 0;
  std::uint32_t warm_rows = 0;
  // What computing tokens again costs.
  CostModel cost;
  // Depths at which the recurrent kernels can store a state inside a prompt:
  // its multiples.
  Depth state_grid = 1;
  std::string eviction = "value";
  SchedulerStrategy strategy = SchedulerStrategy::automatic;
  SnapshotSettings snapshot{};
  // A prompt waits for another's prefill that will save it at least so many
  // tokens. >= 1.
  Depth wait_threshold = 16;
};

// Why a request reuses `usable` tokens and not more.
enum class ReuseLimit : std::uint8_t {
  whole_prompt,      // all but the last token: nothing more can be reused
  no_such_prefix,    // nobody has computed a longer prefix of this prompt
  other_namespace,   // somebody has, but with another model, cache salt or
                     // adapter
  kv_evicted,        // the KV that went on from there was evicted
  state_evicted,     // there is KV, but the state that was stored there was evicted
  state_not_stored,  // there is KV, but no state was ever stored between the hit
                     // and there
  below_grid,        // the recurrent kernels store no state at that depth
  window_evicted,    // there is what else is needed, but pages of the window before
                     // there were evicted
};
inline constexpr int kReuseLimits = 8;
std::string_view name_of(ReuseLimit limit);

struct Lookup {
  Depth matched;  // tokens whose KV the tree has
  Depth usable;   // the hit
  ReuseLimit limit;
};

struct AcquireRequest {
  NamespaceId ns;
  std::span<const Token> tokens;             // >= 1; copied into the lease
  std::span<const Depth> message_ends = {};  // increasing, inside the prompt
  // What the request uses and stores has this priority (0 to 100), for so long
  // after its last use; 0 seconds: always. Only the policies `priority` and
  // `value` look at it.
  std::uint8_t priority = kDefaultPriority;
  double retention_seconds = 0;
  double now_seconds = 0;  // on any steady clock of the caller's
};

// Why acquire gave no lease.
enum class WaitReason : std::uint8_t {
  prefix_in_flight,  // a running request is computing a prefix of this prompt
  no_pages,          // of KV, or of a window
  no_rows,
};
inline constexpr int kWaitReasons = 3;
std::string_view name_of(WaitReason reason);

// What a prompt would reuse, and why not more. For people and for
// /v1/cache/explain.
struct Explanation {
  Lookup lookup;
  Depth length;                      // of the prompt
  std::vector<Depth> checkpoints;    // depths of the matched path that have a state
  std::vector<Depth> forks;          // where other paths leave it
  Depth evicted_checkpoint;          // a state that was evicted there; 0: none is remembered
  std::vector<DepthRange> window;    // depths of the matched path whose window page is there
  Depth other_namespace_matched;     // the most that another namespace has of the
                                     // prompt
  Depth in_flight;                   // of the prompt, what a running request will have computed
  std::vector<PlannedMark> planned;  // checkpoints that computing it now would take
};

// A checkpoint to take in the coming step (compute/step.h has the same; the
// cache does not know compute).
struct LeaseMark {
  Depth depth;
  RowId row;
};

// What must be copied before a lease's first step. The sources stay referenced
// until Lease::restored().
struct RestorePlan {
  std::optional<RowId> state_from;  // copy into state_row(); nullopt: clear it
  // The first `slots` tokens of a page.
  template <class Id>
  struct Copy {
    Id from;
    Id to;
    int slots;
  };
  using PageCopy = Copy<PageId>;
  using WindowCopy = Copy<WindowPageId>;
  std::optional<PageCopy> page_copy;      // the last, partly shared page
  std::optional<WindowCopy> window_copy;  // the same of window pages
};

// Window pages by index: ids[i] is the page of index first + i.
struct WindowPages {
  std::size_t first;
  std::span<const WindowPageId> ids;
};

class CacheImpl;   // cache/cache_impl.h
class LeaseState;  // cache/lease_state.h

// All that one request holds: its pinned path, pages, state row and pending
// marks. Dropping it, at any moment and for any reason, gives everything back.
// Move-only; must not outlive its Cache.
class Lease {
 public:
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  // Tokens reused: lookup().usable, or less where memory is too tight for a
  // copy's source.
  Depth hit() const;
  const Lookup& lookup() const;  // what the tree had at acquire
  Depth computed() const;        // the state row (once restored) has consumed [0, computed)
  Depth kv_write_from() const;   // KV below is in shared pages: read it, do not write it
  std::span<const Token> tokens() const;   // prompt and what was appended
  std::optional<RowId> state_row() const;  // nullopt for models without recurrent layers
  // Reserved so far, by page index. Valid until reserve() or publish().
  std::span<const PageId> pages() const;
  // Those of the window before computed() and beyond, as far as they are
  // reserved; none for models without such layers. Depths below hit() are
  // shared: read them, write from there on. Valid until reserve(), publish() or
  // advance().
  WindowPages window_pages() const;

  const RestorePlan& restore_plan() const;
  // The copies were made: lets go of their sources.
  void restored();

  // One generated token behind the others.
  void append(Token token);

  // Makes pages available for depths below `depth`, evicting if need be. False
  // if there are none to be had: then the request must be preempted or wait.
  // With a shared budget this lease's own marks that are not published yet give
  // way first. With a window, to be asked before each step but the first that
  // goes no further than window_step: prompts have no window pages beyond that.
  // O(new pages).
  bool reserve(Depth depth);

  // The marks of a step that takes this lease from computed() to `to`, each
  // with a row reserved for it; the most valuable are served first. A
  // `periodic` mark takes a free row if a quarter of all rows stays free;
  // others take any free row, or evict what the policy holds for less worth. A
  // mark for which there is no room is skipped and counted. Valid until
  // publish() or advance().
  std::span<const LeaseMark> prepare_marks(Depth to);

  // A step is done: tokens [computed(), to) are computed and the prepared
  // marks' rows are written. Puts them into the tree, where others find them at
  // once. Whole pages that others published first replace this lease's own
  // copies. Window pages that lie wholly before the window are let go. O(to -
  // last published), with a window O(its pages) more.
  void publish(Depth to);

  // The same without touching the tree: for decode steps. Their tokens and
  // marks are published by the next publish() or finish(). Where a window
  // leaves a page behind, once in page_size tokens, this is publish(): what is
  // let go stays for others.
  void advance(Depth to);

  // The sequence ended (or is preempted): publishes what is computed, and the
  // state row itself becomes the checkpoint at computed(). Ends the lease.
  // Before restored() it only ends the lease.
  void finish() &&;

 private:
  friend class CacheImpl;
  explicit Lease(std::unique_ptr<LeaseState> state);
  std::unique_ptr<LeaseState> state_;
};

struct CacheStats {
  struct Pool {
    std::uint32_t capacity, free, evictable, pinned;
  };
  Pool pages;
  Pool window_pages;
  Pool rows;
  std::uint64_t budget_bytes, budget_free_bytes;  // 0 without a shared budget
  std::uint64_t nodes, cached_tokens, checkpoints, leases;
  // Counters since start: leases given, and what limited them; calls of acquire
  // that ended in waiting.
  std::uint64_t lookups, hit_tokens, prompt_tokens;
  std::array<std::uint64_t, kReuseLimits> limits;  // by ReuseLimit
  std::uint64_t waits_in_flight, waits_no_pages, waits_no_rows;
  // Marks by MarkSource. Dropped with their page or by flush(), pages and
  // checkpoints count as evicted too.
  std::uint64_t marks_taken, marks_skipped, evicted_pages, evicted_window_pages,
      evicted_checkpoints;
  // What grows with nodes and entries. Not in it: the tokens (4 bytes each), the numbers of their
  // pages and checkpoints (4 each), and what a pool has for each slot from the start (8 bytes a
  // page, 32 a window page, 40 a row).
  std::size_t metadata_bytes;
};

class Cache {
 public:
  // Errors: `cache_bad_config`, `cache_unknown_policy`. All leases must end
  // before the cache does.
  static Result<std::unique_ptr<Cache>> create(const CacheConfig& config);
  // With a policy of the caller's; config.eviction is not looked at.
  static Result<std::unique_ptr<Cache>> create(const CacheConfig& config,
                                               std::unique_ptr<EvictionPolicy> policy);
  ~Cache();

  // The id of a namespace by its key (model fingerprint, salt, adapter). Ids
  // are never reused; a key of which nothing is cached any more is forgotten in
  // time, and gets a new id when it is named again. O(1) amortized.
  NamespaceId namespace_for(std::string_view key);

  // What a prompt would reuse now. Changes nothing. O(prompt).
  Lookup lookup(NamespaceId ns, std::span<const Token> tokens) const;

  // The same with all reasons and what computing the prompt would store.
  // Changes nothing. O(prompt + namespaces).
  Explanation explain(const AcquireRequest& request) const;

  // A lease with the hit pinned and, all or nothing, pages for the whole prompt,
  // window pages for the first window_step tokens of what is to be computed,
  // and a state row reserved; or the reason to wait, which evicts nothing. A
  // prompt waits for a prefix in flight if another lease that is computing its
  // prompt will soon have a state (without recurrent layers: KV) that saves it
  // wait_threshold tokens over what it could reuse now; that lease then takes a
  // checkpoint where the prompts part. Try again after each step: a lease that
  // is dropped, ends or has passed that depth is no longer waited for. A prompt
  // that can never fit is the caller's to refuse (fits()).
  std::variant<Lease, WaitReason> acquire(const AcquireRequest& request);

  // Whether a sequence of `length` tokens fits into an otherwise empty cache,
  // with a window if it is computed in steps of window_step at most.
  bool fits(Depth length) const;

  // Drops everything that no lease holds.
  void flush();

  // With a shared budget: slots that lost their memory to others since the last
  // call, for the owner of the bytes to give back to the system. To be asked
  // between the last acquire(), reserve() or prepare_marks() before a step or a
  // copy and that step or copy: a slot may have been taken again meanwhile, and
  // what is written from then on must stay.
  struct Cooled {
    std::vector<PageId> pages;
    std::vector<WindowPageId> window_pages;
    std::vector<RowId> rows;
  };
  Cooled take_cooled();

  CacheStats stats() const;

  // Checks all invariants; the text of the first that fails. O(everything).
  std::optional<std::string> verify() const;

 private:
  std::unique_ptr<CacheImpl> impl_;
  explicit Cache(std::unique_ptr<CacheImpl> impl);
};

}  // namespace stemma
