#pragma once
// A pool of equal slots (pages, state rows) handed out as counted, move-only references.
//
// Invariants: every slot is exactly one of free (no reference), evictable (referenced, by unpinned
// references only) or pinned (some reference is pinned): free + evictable + pinned = capacity after
// every call. A slot returns to the pool when its last reference goes. References must not outlive
// the pool.
//
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
  // At most 2^32 - 1 slots.
  explicit SlotPool(std::uint32_t capacity) : slots_(capacity), free_(capacity) {
    for (std::uint32_t slot = 0; slot < capacity; ++slot) slots_[slot] = {0, slot + 1};
  }
  ~SlotPool() { assert(free_ == capacity()); }
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  // One reference to a slot. Pinned references keep the slot's content from being counted as
  // evictable.
  class Ref {
   public:
    Ref(Ref&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), slot_(other.slot_), pinned_(other.pinned_) {}
    Ref& operator=(Ref&& other) noexcept {
      Ref taken(std::move(other));
      std::swap(pool_, taken.pool_);
      std::swap(slot_, taken.slot_);
      std::swap(pinned_, taken.pinned_);
      return *this;
    }
    ~Ref() {
      if (pool_) pool_->drop(slot_, pinned_);
    }

    Id id() const { return static_cast<Id>(slot_); }
    bool pinned() const { return pinned_; }
    void set_pinned(bool pinned) {
      if (pinned != pinned_) pinned ? pool_->pin(slot_) : pool_->unpin(slot_);
      pinned_ = pinned;
    }
    // Another reference to the same slot.
    Ref share(bool pinned) const {
      ++pool_->slots_[slot_].references;
      if (pinned) pool_->pin(slot_);
      return Ref(pool_, slot_, pinned);
    }
    // Whether this is the only reference.
    bool unique() const { return pool_->slots_[slot_].references == 1; }

   private:
    friend class SlotPool;
    Ref(SlotPool* pool, std::uint32_t slot, bool pinned)
        : pool_(pool), slot_(slot), pinned_(pinned) {}
    SlotPool* pool_;  // null after being moved from
    std::uint32_t slot_;
    bool pinned_;
  };

  // A free slot, pinned by the reference; nullopt if none is free.
  std::optional<Ref> take() {
    if (free_ == 0) return std::nullopt;
    const std::uint32_t slot = first_free_;
    first_free_ = slots_[slot].pins;
    --free_;
    slots_[slot] = {1, 0};
    pin(slot);
    return Ref(this, slot, true);
  }

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t free() const { return free_; }
  std::uint32_t evictable() const { return capacity() - free_ - pinned_; }
  std::uint32_t pinned() const { return pinned_; }

  // How many references a slot has, and how many of them are pinned.
  struct Use {
    std::uint32_t references;
    std::uint32_t pins;
    bool operator==(const Use&) const = default;
  };
  Use use(Id id) const {
    const Use& slot = slots_[static_cast<std::uint32_t>(id)];
    return slot.references == 0 ? Use{0, 0} : slot;
  }

 private:
  void pin(std::uint32_t slot) {
    if (slots_[slot].pins++ == 0) ++pinned_;
  }
  void unpin(std::uint32_t slot) {
    assert(slots_[slot].pins > 0);
    if (--slots_[slot].pins == 0) --pinned_;
  }
  void drop(std::uint32_t slot, bool pinned) {
    if (pinned) unpin(slot);
    assert(slots_[slot].references > 0);
    if (--slots_[slot].references > 0) return;
    slots_[slot].pins = first_free_;
    first_free_ = slot;
    ++free_;
  }

  std::vector<Use> slots_;  // a free slot's `pins` is the next free slot
  std::uint32_t first_free_ = 0;
  std::uint32_t free_;
  std::uint32_t pinned_ = 0;
};

}  // namespace stemma
