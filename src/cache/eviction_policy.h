#pragma once
// Which entry goes first when room is needed. An entry is a checkpoint or the tail of a leaf's
// pages; the cache keeps one policy object for each kind, tells it what happens and asks for
// victims. Pinned entries are never in it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/ids.h"
#include "core/result.h"

namespace stemma {

enum class EntryId : std::uint64_t {};  // chosen by the cache, unique among live entries

struct EntryInfo {
  Depth depth;      // of the entry's end
  Depth recompute;  // tokens to run again to have it back: its depth less that of the checkpoint
                    // before it, or the tokens of the tail's last page
  std::uint64_t last_used;  // on the cache's logical clock
};

// One thread. O(log entries) or better for every call.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  // A new entry, or one that is no longer pinned.
  virtual void insert(EntryId entry, const EntryInfo& info) = 0;
  // An entry was used or changed.
  virtual void touch(EntryId entry, const EntryInfo& info) = 0;
  // An entry is gone or pinned. Nothing happens if it is not known.
  virtual void erase(EntryId entry) = 0;
  // The entry to give up first; nullopt if there is none. Does not remove it.
  virtual std::optional<EntryId> victim() const = 0;
};

// By name: `lru`. Errors: `cache_unknown_policy`.
Result<std::unique_ptr<EvictionPolicy>> make_eviction_policy(std::string_view name);

}  // namespace stemma
