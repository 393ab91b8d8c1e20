#pragma once
// The prefix cache: one tree over attention KV and recurrent state, shared by all requests.
//
// It owns who has which page and state row, not the bytes (memory/ has those): it needs no tensors
// and can be embedded alone. A node of the tree covers a run of tokens; it holds references to the
// pages with their KV and to checkpoints at depths inside its run. A request works through a Lease.
//
// Invariants (checked after every public call in checked builds, see Cache::verify):
//  1. A node that covers [start, end) has a page for every page index from start / page_size to
//     (end - 1) / page_size, and that page holds the KV of all depths of its index below `end` on
//     the node's path. Neighbouring nodes may share a page.
//  2. A node's checkpoints lie at depths in (start, end], at most one a depth. There are no
//     tombstones.
//  3. Only leaves lose pages, from their end and down to where a lease pins them; any checkpoint
//     that no lease is restoring from may go.
//  4. Shared pages and checkpoints are immutable: a lease writes only depths at or above its own
//     write-from depth, in pages it took itself.
//  5. free + evictable + pinned = capacity, for pages and for rows; and what is evictable can be
//     evicted.
//
// A hit is one depth: the deepest depth <= min(matched, n - 1) at which every component of the
// model can be restored. For models without recurrent layers that is min(matched, n - 1) itself;
// otherwise a checkpoint's depth.
//
// A sequence that fits() into an empty cache can always be acquired and grown while there is no
// other lease: where the source of a copy would take the last page or row, less is reused.
//
// Threads: one thread drives a Cache and its leases. Costs: acquire is linear in the prompt,
// publish in what is new; an eviction is O(log entries).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/snapshot_plan.h"
#include "core/ids.h"
#include "core/result.h"

namespace stemma {

struct CacheConfig {
  int page_size = 16;            // 1 to 256
  std::uint32_t page_count = 0;  // 0 for models without attention
  std::uint32_t row_count = 0;   // 0 for models without recurrent layers
  std::string eviction = "lru";
  SnapshotSettings snapshot;
  // A prompt waits for another's prefill that will save it at least so many tokens. >= 1.
  Depth wait_threshold = 16;
};

// Why a request reuses `depth` tokens and not more.
enum class ReuseLimit : std::uint8_t {
  whole_prompt,      // all but the last token: nothing more can be reused
  no_such_prefix,    // the tree ends, or goes on with other tokens, at the hit
  kv_without_state,  // KV matches further, but no state is stored between the hit and there
};

struct Lookup {
  Depth matched;  // tokens whose KV the tree has
  Depth usable;   // the hit
  ReuseLimit limit;
};

struct AcquireRequest {
  NamespaceId ns;
  std::span<const Token> tokens;        // >= 1; copied into the lease
  std::span<const Depth> message_ends;  // increasing, inside the prompt
};

// Why acquire gave no lease.
enum class WaitReason : std::uint8_t {
  prefix_in_flight,  // a running request is computing a prefix of this prompt
  no_pages,
  no_rows,
};

// A checkpoint to take in the coming step (compute/step.h has the same; the cache does not know
// compute).
struct LeaseMark {
  Depth depth;
  RowId row;
};

// What must be copied before a lease's first step. The sources stay referenced until
// Lease::restored().
struct RestorePlan {
  std::optional<RowId> state_from;  // copy into state_row(); nullopt: clear it
  struct PageCopy {
    PageId from;
    PageId to;
    int slots;
  };
  std::optional<PageCopy> page_copy;  // the last, partly shared page
};

class CacheImpl;   // cache/cache_impl.h
class LeaseState;  // cache/lease_state.h

// All that one request holds: its pinned path, pages, state row and pending marks. Dropping it, at
// any moment and for any reason, gives everything back. Move-only; must not outlive its Cache.
class Lease {
 public:
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  // Tokens reused: lookup().usable, or less where memory is too tight for a copy's source.
  Depth hit() const;
  const Lookup& lookup() const;  // what the tree had at acquire
  Depth computed() const;        // the state row (once restored) has consumed [0, computed)
  Depth kv_write_from() const;   // KV below is in shared pages: read it, do not write it
  std::span<const Token> tokens() const;   // prompt and what was appended
  std::optional<RowId> state_row() const;  // nullopt for models without recurrent layers
  // Reserved so far, by page index. Valid until reserve() or publish().
  std::span<const PageId> pages() const;

  const RestorePlan& restore_plan() const;
  // The copies were made: lets go of their sources.
  void restored();

  // One generated token behind the others.
  void append(Token token);

  // Makes pages available for depths below `depth`, evicting if need be. False if there are none to
  // be had: then nothing changed and the request must be preempted or wait. O(new pages).
  bool reserve(Depth depth);

  // The marks of a step that takes this lease from computed() to `to`, each with a row reserved for
  // it; the most valuable are served first. A `periodic` mark takes a free row if a quarter of all
  // rows stays free, others take any free row or evict a checkpoint. A mark for which there is no
  // room is skipped and counted. Valid until publish() or advance().
  std::span<const LeaseMark> prepare_marks(Depth to);

  // A step is done: tokens [computed(), to) are computed and the prepared marks' rows are written.
  // Puts them into the tree, where others find them at once. Whole pages that others published
  // first replace this lease's own copies. O(to - last published).
  void publish(Depth to);

  // The same without touching the tree: for decode steps. Their tokens and marks are published by
  // the next publish() or finish().
  void advance(Depth to);

  // The sequence ended (or is preempted): publishes what is computed, and the state row itself
  // becomes the checkpoint at computed(). Ends the lease. Before restored() it only ends the lease.
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
  Pool rows;
  std::uint64_t nodes, cached_tokens, checkpoints, leases;
  // Counters since start: leases given, and what limited them; calls of acquire that ended in
  // waiting.
  std::uint64_t lookups, hit_tokens, prompt_tokens;
  std::uint64_t limit_whole_prompt, limit_no_such_prefix, limit_kv_without_state;
  std::uint64_t waits_in_flight, waits_no_pages, waits_no_rows;
  // Dropped with their page or by flush(), they count as evicted too.
  std::uint64_t marks_taken, marks_skipped, evicted_pages, evicted_checkpoints;
};

class Cache {
 public:
  // Errors: `cache_bad_config`, `cache_unknown_policy`. All leases must end before the cache does.
  static Result<std::unique_ptr<Cache>> create(const CacheConfig& config);
  ~Cache();

  // The id of a namespace by its key (model fingerprint, salt, adapter). O(log namespaces).
  NamespaceId namespace_for(std::string_view key);

  // What a prompt would reuse now. Changes nothing. O(prompt).
  Lookup lookup(NamespaceId ns, std::span<const Token> tokens) const;

  // A lease with the hit pinned and, all or nothing, pages for the whole prompt and a state row
  // reserved; or the reason to wait, which evicts nothing. A prompt waits for a prefix in flight if
  // another lease that is computing its prompt will soon have a state (without recurrent layers:
  // KV) that saves it wait_threshold tokens over what it could reuse now; that lease then takes a
  // checkpoint where the prompts part. Try again after each step: a lease that is dropped, ends or
  // has passed that depth is no longer waited for. A prompt that can never fit is the caller's to
  // refuse (fits()).
  std::variant<Lease, WaitReason> acquire(const AcquireRequest& request);

  // Whether a sequence of `length` tokens fits into an otherwise empty cache.
  bool fits(Depth length) const;

  // Drops everything that no lease holds.
  void flush();

  CacheStats stats() const;

  // Checks all invariants; the text of the first that fails. O(everything).
  std::optional<std::string> verify() const;

 private:
  std::unique_ptr<CacheImpl> impl_;
  explicit Cache(std::unique_ptr<CacheImpl> impl);
};

}  // namespace stemma
