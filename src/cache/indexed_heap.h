#pragma once
// A heap of dense numbers by key, smallest first, in which any element can be
// changed or removed. Equal keys go by the element's number, so the order does
// not depend on history.
//
// Threads: none. Costs: O(log size) a change, O(1) for the smallest; 4 bytes
// for each number below the largest, and 4 and a key for each element.

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "cache/chunked.h"

namespace stemma {

template <class Key>
class IndexedHeap {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::uint32_t top() const { return heap_[0].element; }
  const Key& top_key() const { return heap_[0].key; }

  bool contains(std::uint32_t element) const {
    return element < places_.size() && places_[element] != 0;
  }
  const Key& key(std::uint32_t element) const { return heap_[places_[element] - 1].key; }

  void put(std::uint32_t element, const Key& key) {
    places_.grow_to(element + std::size_t{1});
    if (places_[element] == 0) {
      heap_.push_back({key, element});
      up(heap_.size() - 1);
      return;
    }
    const std::size_t place = places_[element] - 1;
    const bool earlier = key < heap_[place].key;
    heap_[place].key = key;
    earlier ? up(place) : down(place);
  }

  std::size_t metadata_bytes() const { return heap_.metadata_bytes() + places_.metadata_bytes(); }

  void erase(std::uint32_t element) {
    if (!contains(element)) return;
    const std::size_t place = places_[element] - 1;
    places_[element] = 0;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    set(place, last);
    up(place);
    down(places_[last.element] - 1);
  }

 private:
  static constexpr std::size_t kArity = 4;

  struct Entry {
    Key key{};
    std::uint32_t element = 0;
  };
  static bool before(const Entry& a, const Entry& b) {
    return std::tie(a.key, a.element) < std::tie(b.key, b.element);
  }
  void set(std::size_t place, const Entry& entry) {
    heap_[place] = entry;
    places_[entry.element] = static_cast<std::uint32_t>(place) + 1;
  }
  void up(std::size_t place) {
    const Entry entry = heap_[place];
    while (place > 0 && before(entry, heap_[(place - 1) / kArity])) {
      set(place, heap_[(place - 1) / kArity]);
      place = (place - 1) / kArity;
    }
    set(place, entry);
  }
  void down(std::size_t place) {
    const Entry entry = heap_[place];
    for (;;) {
      const std::size_t first = place * kArity + 1;
      if (first >= heap_.size()) break;
      std::size_t least = first;
      for (std::size_t c = first + 1; c < heap_.size() && c < first + kArity; ++c) {
        if (before(heap_[c], heap_[least])) least = c;
      }
      if (!before(heap_[least], entry)) break;
      set(place, heap_[least]);
      place = least;
    }
    set(place, entry);
  }

  Chunked<Entry> heap_;
  Chunked<std::uint32_t> places_;  // by element: 1 + where in heap_; 0: nowhere
};

}  // namespace stemma
