#pragma once
// Many heaps over one set of entries, by small numbers: each entry is in at most one, which it may
// leave or change at any time. All entries of a heap are of one kind. Smallest key first; equal
// keys go by slot. Heaps that are empty take nothing.
//
// Threads: none. Costs: O(log size of the heap) a change; 6 bytes for each slot below the largest,
// and 9 for each entry.

#include <array>
#include <cassert>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/chunked.h"
#include "cache/eviction_policy.h"

namespace stemma {

class HeapForest {
 public:
  static constexpr std::uint32_t kHeaps = (1 << 17) - 1;             // numbers are below it
  static constexpr std::uint64_t kKeys = std::uint64_t{1} << 40;     // keys are below it
  static constexpr std::uint32_t kEntries = std::uint32_t{1} << 31;  // in a heap, at most

  struct Item {
    std::uint64_t key;
    EntryId entry;
  };

  void put(std::uint32_t number, EntryId entry, std::uint64_t key) {
    assert(number < kHeaps && key < kKeys);
    const Stored item(key, entry.slot);
    if (contains(entry)) {
      const Place place = places_[entry.kind][entry.slot];
      if (place.heap() == number && heaps_[at_.at(number)].items[place.index()] == item) return;
      erase(entry);
    }
    const auto [at, added] = at_.try_emplace(number, static_cast<std::uint32_t>(heaps_.size()));
    if (added) heaps_.push_back({number, entry.kind, {}});
    Heap& heap = heaps_[at->second];
    assert(heap.kind == entry.kind && heap.items.size() < kEntries);
    places_[entry.kind].grow_to(entry.slot + std::size_t{1});
    heap.items.push_back(item);
    up(heap, static_cast<std::uint32_t>(heap.items.size() - 1));
  }

  // Nothing happens if it is in none.
  void erase(EntryId entry) {
    if (!contains(entry)) return;
    const Place place = std::exchange(places_[entry.kind][entry.slot], {});
    const std::uint32_t at = at_.at(place.heap());
    Heap& heap = heaps_[at];
    const Stored last = heap.items.back();
    heap.items.pop_back();
    if (heap.items.empty()) {
      drop(at);
      return;
    }
    if (place.index() == heap.items.size()) return;
    set(heap, place.index(), last);
    up(heap, place.index());
    down(heap, places_[entry.kind][last.slot()].index());
  }

  bool contains(EntryId entry) const {
    const auto& places = places_[entry.kind];
    return entry.slot < places.size() && places[entry.slot].heap() != kHeaps;
  }

  // The heaps that are not empty, in no order: how many, their numbers, and the first of each.
  std::size_t size() const { return heaps_.size(); }
  std::uint32_t number(std::size_t i) const { return heaps_[i].number; }
  Item first(std::size_t i) const {
    const Stored& stored = heaps_[i].items[0];
    return {stored.key(), {heaps_[i].kind, stored.slot()}};
  }

  std::size_t metadata_bytes() const {
    // An unordered_map's node has a pointer and its value, and about one bucket.
    std::size_t bytes =
        heaps_.capacity() * sizeof(Heap) + at_.size() * (sizeof(void*) * 2 + sizeof(*at_.begin()));
    for (const Heap& heap : heaps_) bytes += heap.items.metadata_bytes();
    for (const auto& places : places_) bytes += places.metadata_bytes();
    return bytes;
  }

 private:
  // An entry's heap, in 17 bits, and index there, in 31.
  class Place {
   public:
    Place() : Place(kHeaps, 0) {}
    Place(std::uint32_t heap, std::uint32_t index)
        : parts_{static_cast<std::uint16_t>(index),
                 static_cast<std::uint16_t>(index >> 16 | (heap & 1) << 15),
                 static_cast<std::uint16_t>(heap >> 1)} {}
    std::uint32_t heap() const { return std::uint32_t{parts_[2]} << 1 | parts_[1] >> 15; }
    std::uint32_t index() const { return (parts_[1] & 0x7FFFu) << 16 | parts_[0]; }

   private:
    std::array<std::uint16_t, 3> parts_;
  };
  static_assert(sizeof(Place) == 6);

  // A key, in 40 bits, and a slot. Ordered by key, then slot.
  class Stored {
   public:
    Stored() : Stored(0, 0) {}
    Stored(std::uint64_t key, std::uint32_t slot) {
      for (int i = 0; i < 5; ++i) bytes_[i] = static_cast<std::uint8_t>(key >> (32 - 8 * i));
      for (int i = 0; i < 4; ++i) bytes_[5 + i] = static_cast<std::uint8_t>(slot >> (24 - 8 * i));
    }
    std::uint64_t key() const {
      std::uint64_t key = 0;
      for (int i = 0; i < 5; ++i) key = key << 8 | bytes_[i];
      return key;
    }
    std::uint32_t slot() const {
      std::uint32_t slot = 0;
      for (int i = 5; i < 9; ++i) slot = slot << 8 | bytes_[i];
      return slot;
    }
    auto operator<=>(const Stored&) const = default;

   private:
    std::array<std::uint8_t, 9> bytes_;  // from high to low
  };
  static_assert(sizeof(Stored) == 9);

  struct Heap {
    std::uint32_t number;
    EntryKind kind;
    Chunked<Stored> items;
  };

  // An empty one; the last takes its place.
  void drop(std::uint32_t at) {
    at_.erase(heaps_[at].number);
    if (at + 1 < heaps_.size()) {
      heaps_[at] = std::move(heaps_.back());
      at_[heaps_[at].number] = at;
    }
    heaps_.pop_back();
  }
  void set(Heap& heap, std::uint32_t index, const Stored& item) {
    heap.items[index] = item;
    places_[heap.kind][item.slot()] = Place(heap.number, index);
  }
  void up(Heap& heap, std::uint32_t index) {
    const Stored item = heap.items[index];
    while (index > 0 && item < heap.items[(index - 1) / 2]) {
      set(heap, index, heap.items[(index - 1) / 2]);
      index = (index - 1) / 2;
    }
    set(heap, index, item);
  }
  void down(Heap& heap, std::uint32_t index) {
    const Stored item = heap.items[index];
    const auto size = static_cast<std::uint32_t>(heap.items.size());
    for (;;) {
      std::uint32_t least = 2 * index + 1;
      if (least >= size) break;
      if (least + 1 < size && heap.items[least + 1] < heap.items[least]) ++least;
      if (!(heap.items[least] < item)) break;
      set(heap, index, heap.items[least]);
      index = least;
    }
    set(heap, index, item);
  }

  std::vector<Heap> heaps_;                              // those that are not empty
  std::unordered_map<std::uint32_t, std::uint32_t> at_;  // by number: where in heaps_
  std::array<Chunked<Place>, kEntryKinds> places_;
};

}  // namespace stemma
