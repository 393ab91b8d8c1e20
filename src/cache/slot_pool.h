#pragma once
// A pool of equal slots (pages, state rows) handed out as counted, move-only
// references.
//
// Invariants: every slot is exactly one of free (no reference), evictable
// (referenced, by unpinned references only) or pinned (some reference is
// pinned): free + evictable + pinned = capacity after every call. A slot
// returns to the pool when its last reference goes. References must not outlive
// the pool.
//
// Memory: a free slot is warm (its memory is counted in the shared budget) or
// cold (it has none). A slot that was used is warm afterwards, until it is
// cooled for the sake of another pool. A pool with a budget starts cold; one
// without is always warm.
//
// Threads: none; the cache's thread owns it. Costs: O(1) for all operations; 8
// bytes a slot.

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/byte_budget.h"

namespace stemma {

template <class Id>
class SlotPool {
 public:
  // At most 2^32 - 2 slots of `slot_bytes` each. The budget, if there is one,
  // must outlive the pool.
  explicit SlotPool(std::uint32_t capacity, std::uint64_t slot_bytes = 0,
                    ByteBudget* budget = nullptr)
      : slots_(capacity), slot_bytes_(slot_bytes), budget_(budget) {
    FreeList& list = budget_ ? cold_ : warm_;
    list.count = capacity;
    for (std::uint32_t slot = 0; slot < capacity; ++slot) slots_[slot] = {0, slot + 1};
    list.first = 0;
  }
  ~SlotPool() { assert(free() == capacity()); }
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  // One reference to a slot. Pinned references keep the slot's content from
  // being counted as evictable.
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
    Ref share(bool pinned) const { return pool_->share(id(), pinned); }
    // Whether this is the only reference.
    bool unique() const { return pool_->slots_[slot_].references == 1; }

    // Gives up the object but not the reference, which must not be pinned:
    // whoever keeps the id owes the pool an adopt().
    Id detach() {
      assert(!pinned_);
      pool_ = nullptr;
      return id();
    }

   private:
    friend class SlotPool;
    Ref(SlotPool* pool, std::uint32_t slot, bool pinned)
        : pool_(pool), slot_(slot), pinned_(pinned) {}
    SlotPool* pool_;  // null after being moved from
    std::uint32_t slot_;
    bool pinned_;
  };

  // A free slot, pinned by the reference: a warm one, or a cold one for which
  // the budget has room. nullopt if there is neither.
  std::optional<Ref> take() {
    if (warm_.count == 0) {
      if (cold_.count == 0 || !budget_->take(slot_bytes_)) return std::nullopt;
      put(warm_, get(cold_));
    }
    const std::uint32_t slot = get(warm_);
    slots_[slot] = {1, 0};
    pin(slot);
    return Ref(this, slot, true);
  }

  // Another reference to a slot that has one.
  Ref share(Id id, bool pinned) {
    const auto slot = static_cast<std::uint32_t>(id);
    assert(slots_[slot].references > 0);
    ++slots_[slot].references;
    if (pinned) pin(slot);
    return Ref(this, slot, pinned);
  }
  // The reference that detach() left with its id.
  Ref adopt(Id id) { return Ref(this, static_cast<std::uint32_t>(id), false); }

  // Takes the memory from a warm free slot and gives it to the budget; nullopt
  // if there is none.
  std::optional<Id> cool() {
    if (!budget_ || warm_.count == 0) return std::nullopt;
    const std::uint32_t slot = get(warm_);
    put(cold_, slot);
    budget_->give(slot_bytes_);
    return static_cast<Id>(slot);
  }

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t free() const { return warm_.count + cold_.count; }
  std::uint32_t warm() const { return warm_.count; }
  std::uint32_t evictable() const { return capacity() - free() - pinned_; }
  std::uint32_t pinned() const { return pinned_; }
  std::uint64_t slot_bytes() const { return slot_bytes_; }
  // Slots that take() can hand out one after the other now.
  std::uint64_t available() const {
    if (!budget_ || slot_bytes_ == 0) return free();
    return warm_.count + std::min<std::uint64_t>(cold_.count, budget_->room() / slot_bytes_);
  }

  // Gives the first `count` slots, of which none was taken yet, their memory, as far as the budget has room.
  void warm_up(std::uint32_t count) {
    assert(free() == capacity());
    while (warm_.count < count && cold_.count > 0 && budget_->take(slot_bytes_))
      put(warm_, get(cold_));
  }

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

  // Compares the counts with those that were found by looking, one a slot; the
  // text of the first difference. O(slots).
  std::optional<std::string> verify(const std::vector<Use>& found) const {
    std::uint32_t unused = 0;
    std::uint32_t pinned = 0;
    for (std::uint32_t slot = 0; slot < capacity(); ++slot) {
      const Use known = use(static_cast<Id>(slot));
      if (known != found[slot]) {
        return "slot " + std::to_string(slot) + " has " + std::to_string(known.references) +
               " references, " + std::to_string(known.pins) + " pinned; found were " +
               std::to_string(found[slot].references) + " and " + std::to_string(found[slot].pins);
      }
      unused += known.references == 0;
      pinned += known.pins > 0;
    }
    if (unused != free() || pinned != pinned_)
      return "the counts of free and pinned slots are wrong";
    return std::nullopt;
  }

 private:
  struct FreeList {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  std::uint32_t get(FreeList& list) {
    const std::uint32_t slot = list.first;
    list.first = slots_[slot].pins;
    --list.count;
    return slot;
  }
  void put(FreeList& list, std::uint32_t slot) {
    slots_[slot] = {0, list.first};
    list.first = slot;
    ++list.count;
  }
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
    if (--slots_[slot].references == 0) put(warm_, slot);
  }

  std::vector<Use> slots_;  // a free slot's `pins` is the next free slot of its list
  const std::uint64_t slot_bytes_;
  ByteBudget* const budget_;
  FreeList warm_;
  FreeList cold_;
  std::uint32_t pinned_ = 0;
};

}  // namespace stemma
