#pragma once
// Many heaps over one set of entries: each entry is in at most one, which it
// may leave or change at any time. All entries of a heap are of one kind. Smallest key first; equal
// keys go by slot.
//
// Threads: none. Costs: O(log size of the heap) a change; 8 bytes for each slot
// below the largest, and 12 for each entry.

#include <array>
#include <cassert>
#include <compare>
#include <cstdint>
#include <vector>

#include "cache/eviction_policy.h"
#include "cache/grow.h"

namespace stemma {

class HeapForest {
 public:
  struct Item {
    std::uint64_t key;
    EntryId entry;
  };

  void put(std::uint32_t heap, EntryId entry, std::uint64_t key) {
    Place& place = place_of(entry);
    const Stored item(key, entry.slot);
    if (place.heap == heap && heaps_[heap][place.index] == item) return;
    erase(entry);
    if (heap >= heaps_.size()) {
      heaps_.resize(heap + 1);
      occupied_at_.resize(heap + 1);
      kinds_.resize(heap + 1);
    }
    if (heaps_[heap].empty()) {
      occupied_at_[heap] = static_cast<std::uint32_t>(occupied_.size());
      occupied_.push_back(heap);
      kinds_[heap] = entry.kind;
    }
    assert(kinds_[heap] == entry.kind);
    place.heap = heap;
    place.index = static_cast<std::uint32_t>(heaps_[heap].size());
    push(heaps_[heap], item);
    up(heap, place.index);
  }

  void erase(EntryId entry) {
    if (!contains(entry)) return;
    Place& place = place_of(entry);
    const std::uint32_t heap = place.heap;
    const std::uint32_t index = place.index;
    place = {};
    std::vector<Stored>& in = heaps_[heap];
    const Stored last = in.back();
    in.pop_back();
    if (in.empty()) {
      occupied_at_[occupied_.back()] = occupied_at_[heap];
      occupied_[occupied_at_[heap]] = occupied_.back();
      occupied_.pop_back();
    }
    if (index == in.size()) return;
    set(heap, index, last);
    up(heap, index);
    down(heap, places_[entry.kind][last.slot].index);
  }

  std::size_t metadata_bytes() const {
    std::size_t bytes =
        bytes_of(heaps_) + bytes_of(occupied_) + bytes_of(occupied_at_) + bytes_of(kinds_);
    for (const auto& heap : heaps_) bytes += bytes_of(heap);
    for (const auto& places : places_) bytes += bytes_of(places);
    return bytes;
  }

  bool contains(EntryId entry) const {
    const auto& places = places_[entry.kind];
    return entry.slot < places.size() && places[entry.slot].heap != kNone;
  }
  std::uint32_t heap_of(EntryId entry) const { return places_[entry.kind][entry.slot].heap; }

  // The heaps that are not empty, in no order, and the first of one.
  const std::vector<std::uint32_t>& occupied() const { return occupied_; }
  Item first(std::uint32_t heap) const {
    const Stored& stored = heaps_[heap].front();
    return {stored.key(), {kinds_[heap], stored.slot}};
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Place {
    std::uint32_t heap = kNone;
    std::uint32_t index = 0;
  };

  // A key in two halves, so that it takes 12 bytes. Ordered by key, then slot.
  struct Stored {
    Stored(std::uint64_t key, std::uint32_t of_slot)
        : high(static_cast<std::uint32_t>(key >> 32)),
          low(static_cast<std::uint32_t>(key)),
          slot(of_slot) {}
    std::uint64_t key() const { return std::uint64_t{high} << 32 | low; }
    auto operator<=>(const Stored&) const = default;
    std::uint32_t high, low, slot;
  };

  Place& place_of(EntryId entry) {
    auto& places = places_[entry.kind];
    grow_to(places, entry.slot + std::size_t{1});
    return places[entry.slot];
  }
  void set(std::uint32_t heap, std::uint32_t index, const Stored& item) {
    heaps_[heap][index] = item;
    places_[kinds_[heap]][item.slot] = {heap, index};
  }
  void up(std::uint32_t heap, std::uint32_t index) {
    const Stored item = heaps_[heap][index];
    while (index > 0 && item < heaps_[heap][(index - 1) / 2]) {
      set(heap, index, heaps_[heap][(index - 1) / 2]);
      index = (index - 1) / 2;
    }
    set(heap, index, item);
  }
  void down(std::uint32_t heap, std::uint32_t index) {
    const Stored item = heaps_[heap][index];
    const auto size = static_cast<std::uint32_t>(heaps_[heap].size());
    for (;;) {
      std::uint32_t least = 2 * index + 1;
      if (least >= size) break;
      if (least + 1 < size && heaps_[heap][least + 1] < heaps_[heap][least]) ++least;
      if (!(heaps_[heap][least] < item)) break;
      set(heap, index, heaps_[heap][least]);
      index = least;
    }
    set(heap, index, item);
  }

  std::vector<std::vector<Stored>> heaps_;
  std::vector<EntryKind> kinds_;  // by heap
  std::vector<std::uint32_t> occupied_;
  std::vector<std::uint32_t> occupied_at_;  // by heap: its place in occupied_, if it is there
  std::array<std::vector<Place>, kEntryKinds> places_;
};

}  // namespace stemma
