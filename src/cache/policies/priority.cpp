// Lowest priority first; of one priority, the least recently used. A priority
// that is held only for a time falls back to the default when that is over.

#include <array>

#include "cache/chunked.h"
#include "cache/indexed_heap.h"
#include "cache/policies/policies.h"
#include "cache/policies/ranked_policy.h"

namespace stemma {

namespace {

class PriorityPolicy final : public RankedPolicy {
 public:
  void put(EntryId entry, const EntryInfo& info) override {
    RankedPolicy::put(entry, info);
    if (info.retain_until > now_) {
      expiries_[entry.kind].put(entry.slot, info.retain_until);
      infos_[entry.kind].grow_to(entry.slot + std::size_t{1});
      infos_[entry.kind][entry.slot] = info;
    } else {
      expiries_[entry.kind].erase(entry.slot);
    }
  }
  void hold(EntryId entry) override {
    RankedPolicy::hold(entry);
    expiries_[entry.kind].erase(entry.slot);
  }
  void erase(EntryId entry, bool evicted) override {
    RankedPolicy::erase(entry, evicted);
    expiries_[entry.kind].erase(entry.slot);
  }
  // What is stored takes no place from what has a higher priority.
  bool worth(const EntryInfo& candidate, EntryId victim) override {
    return rank(candidate) >> kPriorityShift >= rank_of(victim) >> kPriorityShift;
  }
  std::size_t metadata_bytes() const override {
    std::size_t bytes = RankedPolicy::metadata_bytes();
    for (int kind = 0; kind < kEntryKinds; ++kind)
      bytes += expiries_[kind].metadata_bytes() + infos_[kind].metadata_bytes();
    return bytes;
  }
  void advance(std::uint64_t /*clock*/, double now) override {
    now_ = now;
    for (EntryKind kind = 0; kind < kEntryKinds; ++kind) {
      while (!expiries_[kind].empty() && expiries_[kind].top_key() <= now_) {
        const std::uint32_t slot = expiries_[kind].top();
        put({kind, slot}, infos_[kind][slot]);
      }
    }
  }

 private:
  static constexpr int kPriorityShift = 56;  // in the upper 8 bits

  std::uint64_t rank(const EntryInfo& info) const override {
    const bool holds = info.retain_until == 0 || info.retain_until > now_;
    return std::uint64_t{holds ? info.priority : kDefaultPriority} << kPriorityShift |
           info.last_used;
  }

  double now_ = 0;
  std::array<IndexedHeap<double>, kEntryKinds> expiries_;  // of entries that will change
  std::array<Chunked<EntryInfo>, kEntryKinds> infos_;      // by slot, of those
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_priority_policy() {
  return std::make_unique<PriorityPolicy>();
}

}  // namespace stemma
