#pragma once
// A policy whose entries have a fixed rank between their uses: one heap a kind,
// lowest rank first. Among equal ranks the deeper entry goes first: a path is
// used as a whole, and only its end can go without taking the rest along.

#include <array>
#include <tuple>

#include "cache/eviction_policy.h"
#include "cache/indexed_heap.h"

namespace stemma {

class RankedPolicy : public EvictionPolicy {
 public:
  void put(EntryId entry, const EntryInfo& info) override {
    heaps_[entry.kind].put(entry.slot, Key(rank(info), info.depth));
  }
  void used(EntryId entry, const EntryInfo& info) override {
    if (heaps_[entry.kind].contains(entry.slot)) put(entry, info);
  }
  void hold(EntryId entry) override { heaps_[entry.kind].erase(entry.slot); }
  void erase(EntryId entry, bool /*evicted*/) override { heaps_[entry.kind].erase(entry.slot); }

  std::size_t metadata_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& heap : heaps_) bytes += heap.metadata_bytes();
    return bytes;
  }

  std::optional<EntryId> victim(unsigned kinds) override {
    std::optional<EntryId> lowest;
    for (EntryKind kind = 0; kind < kEntryKinds; ++kind) {
      if ((kinds >> kind & 1) == 0 || heaps_[kind].empty()) continue;
      if (!lowest || heaps_[kind].top_key() < heaps_[lowest->kind].top_key())
        lowest = EntryId{kind, heaps_[kind].top()};
    }
    return lowest;
  }

 protected:
  // Lower goes first.
  virtual std::uint64_t rank(const EntryInfo& info) const = 0;
  // Of an entry that is there.
  std::uint64_t rank_of(EntryId entry) const {
    const Key& key = heaps_[entry.kind].key(entry.slot);
    return std::uint64_t{key.high} << 32 | key.low;
  }

 private:
  // Rank, then depth from deep to shallow; in 12 bytes.
  struct Key {
    Key() = default;
    Key(std::uint64_t rank, Depth depth)
        : high(static_cast<std::uint32_t>(rank >> 32)),
          low(static_cast<std::uint32_t>(rank)),
          shallow(0xFFFFFFFFu - static_cast<std::uint32_t>(depth)) {}
    std::uint32_t high = 0, low = 0, shallow = 0;
    auto operator<=>(const Key&) const = default;
  };
  std::array<IndexedHeap<Key>, kEntryKinds> heaps_;
};

}  // namespace stemma
