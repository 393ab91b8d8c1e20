#pragma once
// Many heaps over one set of entries: each entry is in at most one, which it
// may leave or change at any time. Smallest key first; equal keys go by entry.
//
// Threads: none. Costs: O(log size of the heap) a change; 8 bytes for each slot
// below the largest, and 24 for each entry.

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "cache/eviction_policy.h"

namespace stemma {

class HeapForest {
 public:
  struct Item {
    std::uint64_t key;
    EntryId entry;
  };

  void put(std::uint32_t heap, EntryId entry, std::uint64_t key) {
    Place& place = place_of(entry);
    if (place.heap == heap && items(heap)[place.index].key == key) return;
    erase(entry);
    if (heap >= heaps_.size()) {
      heaps_.resize(heap + 1);
      occupied_at_.resize(heap + 1);
    }
    if (heaps_[heap].empty()) {
      occupied_at_[heap] = static_cast<std::uint32_t>(occupied_.size());
      occupied_.push_back(heap);
    }
    place.heap = heap;
    place.index = static_cast<std::uint32_t>(heaps_[heap].size());
    heaps_[heap].push_back({key, entry});
    up(heap, place.index);
  }

  void erase(EntryId entry) {
    if (!contains(entry)) return;
    Place& place = place_of(entry);
    const std::uint32_t heap = place.heap;
    const std::uint32_t index = place.index;
    place = {};
    std::vector<Item>& in = heaps_[heap];
    const Item last = in.back();
    in.pop_back();
    if (in.empty()) {
      occupied_at_[occupied_.back()] = occupied_at_[heap];
      occupied_[occupied_at_[heap]] = occupied_.back();
      occupied_.pop_back();
    }
    if (index == in.size()) return;
    set(heap, index, last);
    up(heap, index);
    down(heap, place_of(last.entry).index);
  }

  bool contains(EntryId entry) const {
    const auto& places = places_[entry.kind];
    return entry.slot < places.size() && places[entry.slot].heap != kNone;
  }
  std::uint32_t heap_of(EntryId entry) const { return places_[entry.kind][entry.slot].heap; }

  // The heaps that are not empty, in no order, and the first of one.
  const std::vector<std::uint32_t>& occupied() const { return occupied_; }
  const Item& first(std::uint32_t heap) const { return heaps_[heap].front(); }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Place {
    std::uint32_t heap = kNone;
    std::uint32_t index = 0;
  };

  Place& place_of(EntryId entry) {
    auto& places = places_[entry.kind];
    if (entry.slot >= places.size()) places.resize(entry.slot + 1);
    return places[entry.slot];
  }
  std::vector<Item>& items(std::uint32_t heap) { return heaps_[heap]; }
  static bool before(const Item& a, const Item& b) {
    return std::tie(a.key, a.entry.kind, a.entry.slot) <
           std::tie(b.key, b.entry.kind, b.entry.slot);
  }
  void set(std::uint32_t heap, std::uint32_t index, const Item& item) {
    heaps_[heap][index] = item;
    place_of(item.entry) = {heap, index};
  }
  void up(std::uint32_t heap, std::uint32_t index) {
    const Item item = heaps_[heap][index];
    while (index > 0 && before(item, heaps_[heap][(index - 1) / 2])) {
      set(heap, index, heaps_[heap][(index - 1) / 2]);
      index = (index - 1) / 2;
    }
    set(heap, index, item);
  }
  void down(std::uint32_t heap, std::uint32_t index) {
    const Item item = heaps_[heap][index];
    const auto size = static_cast<std::uint32_t>(heaps_[heap].size());
    for (;;) {
      std::uint32_t least = 2 * index + 1;
      if (least >= size) break;
      if (least + 1 < size && before(heaps_[heap][least + 1], heaps_[heap][least])) ++least;
      if (!before(heaps_[heap][least], item)) break;
      set(heap, index, heaps_[heap][least]);
      index = least;
    }
    set(heap, index, item);
  }

  std::vector<std::vector<Item>> heaps_;
  std::vector<std::uint32_t> occupied_;
  std::vector<std::uint32_t> occupied_at_;  // by heap: its place in occupied_, if it is there
  std::array<std::vector<Place>, kEntryKinds> places_;
};

}  // namespace stemma
