#pragma once
// A pool of equal slots (pages, state rows) handed out as counted, move-only references.
//
// Invariants: every slot is exactly one of free (no reference), evictable (referenced, by unpinned references only)
// or pinned (some reference is pinned): free + evictable + pinned = capacity after every call. A slot returns to the
// pool when its last reference goes. References must not outlive the pool.
// Threads: none; the cache's thread owns it. Costs: O(1) for all operations; 8 bytes a slot.

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace stemma {

template <class Id>
class SlotPool {
 public:
  explicit SlotPool(std::uint32_t capacity);
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  // One reference to a slot. Pinned references keep the slot's content from being counted as evictable.
  class Ref {
   public:
    Ref(Ref&& other) noexcept;
    Ref& operator=(Ref&& other) noexcept;
    ~Ref();

    Id id() const;
    bool pinned() const;
    void set_pinned(bool pinned);
    // Another reference to the same slot.
    Ref share(bool pinned) const;
    // Whether this is the only reference.
    bool unique() const;

   private:
    friend class SlotPool;
    Ref(SlotPool* pool, std::uint32_t slot, bool pinned);
    SlotPool* pool_;  // null after being moved from
    std::uint32_t slot_;
    bool pinned_;
  };

  // A free slot, pinned by the reference; nullopt if none is free.
  std::optional<Ref> take();

  std::uint32_t capacity() const;
  std::uint32_t free() const;
  std::uint32_t evictable() const;
  std::uint32_t pinned() const;
};

}  // namespace stemma
