#pragma once
// Which entry goes first when room is needed. An entry is one thing that can be
// given up: a checkpoint, a window page, or the tail of a leaf's KV. The cache tells its
// policy what happens to entries and asks for victims. Entries that a request
// uses are never in it.
//
// A policy is one class in policies/; make_eviction_policy() knows them by
// name.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "core/ids.h"
#include "core/result.h"

namespace stemma {

// The kinds of entries, in the order of the cache's components (component.h).
// Small numbers.
using EntryKind = std::uint8_t;
inline constexpr int kEntryKinds = 3;

// `slot` is dense: below the number of nodes for tails, of window pages for
// these, of rows for checkpoints.
struct EntryId {
  EntryKind kind;
  std::uint32_t slot;
  bool operator==(const EntryId&) const = default;
};

// Where on its path an entry lies, which says what would reuse it.
enum class EntryPlace : std::uint8_t {
  inside,  // on the way: serves prompts that leave the path between it and the next checkpoint
  recent,  // shortly before the end of a path from which nobody has gone on: serves repeats and
           // prompts that go on from there but differ at the very end
  fork,    // where paths part
  end,     // the last on its path: serves what goes on from there
};
inline constexpr int kEntryPlaces = 4;

inline constexpr std::uint8_t kDefaultPriority = 35;  // of 0 to 100; TensorRT-LLM's default

struct EntryInfo {
  Depth depth = 0;              // of the entry's end
  double cost = 0;              // of computing again what would be lost, from the next shallower
                                // usable depth (units of CacheConfig::cost; tokens by default)
  double bytes = 1;             // freed if it goes, with what goes along
  std::uint64_t last_used = 0;  // on the cache's logical clock, which counts uses of paths
  std::uint32_t uses = 0;       // requests that went on from it or passed its node's end
  // Of the request that computed it: one more than that of the request whose path it went on from,
  // 1 if it went on from nothing or left others' paths.
  std::uint16_t turn = 1;
  EntryPlace place = EntryPlace::inside;
  // It goes and is reused together with another entry, which is told of it.
  bool stands_for_another = false;
  std::uint8_t priority = kDefaultPriority;  // the highest of the requests that used it
  double retain_until = 0;                   // seconds on the caller's clock; until then the
                                             // priority holds. 0: always
  Token last_token = 0;                      // the path's token before `depth`
};

// One thread. O(log entries) or better for every call, amortized.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  // A new entry, one that is no longer in use, or one whose info changed.
  virtual void put(EntryId entry, const EntryInfo& info) = 0;
  // An entry was reused: it serves a request now. It may be in use and not
  // known; then `info` is what put() would get.
  virtual void used(EntryId entry, const EntryInfo& info) = 0;
  // An entry is in use. Nothing happens if it is not known.
  virtual void hold(EntryId entry) = 0;
  // An entry is gone; `evicted` if to make room. Nothing happens if it is not
  // known.
  virtual void erase(EntryId entry, bool evicted) = 0;
  // The entry of these kinds (bit k: kind k) to give up first; nullopt if there
  // is none. Does not remove it.
  virtual std::optional<EntryId> victim(unsigned kinds) = 0;
  // Whether a new entry is worth the place of the victim that would have to go. By default only
  // where paths part or end.
  virtual bool worth(const EntryInfo& candidate, EntryId /*victim*/) {
    return candidate.place >= EntryPlace::fork;
  }
  // The logical clock and the caller's, before the calls of one request.
  virtual void advance(std::uint64_t /*clock*/, double /*now_seconds*/) {}
  // Memory it takes; 0 if it does not count.
  virtual std::size_t metadata_bytes() const { return 0; }
};

using EvictionPolicyFactory = std::function<std::unique_ptr<EvictionPolicy>()>;

// By name: value, lru, lfu, slru, priority, marconi or marconi:ALPHA, seglen.
// Errors: `cache_unknown_policy`.
Result<std::unique_ptr<EvictionPolicy>> make_eviction_policy(std::string_view name);

}  // namespace stemma
