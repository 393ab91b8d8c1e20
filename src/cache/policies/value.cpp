// What is worth least goes first: expected reuses per request (ReuseModel) x
// cost of computing it again / bytes freed.
//
// Entries fall into classes by what kind they are, where on their path they lie
// and how often they were used; the model learns each class's reuse from what
// happens to it. Inside a class, entries of nearly equal cost per byte (a
// quarter of a power of two) wait in one heap by last use: the oldest of each
// heap is a candidate, and the candidate of least value is the victim.
//
// Costs: O(log entries) a change; a victim O(heaps that are not empty), some
// hundreds at most.

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <vector>

#include "cache/grow.h"
#include "cache/indexed_heap.h"
#include "cache/policies/heap_forest.h"
#include "cache/policies/policies.h"
#include "cache/policies/reuse_model.h"

namespace stemma {

namespace {

constexpr int kPlaces = 3;
constexpr int kUses = 6;  // 0, 1, 2, 3-4, 5-8, more
constexpr int kClasses = kEntryKinds * kPlaces * kUses;
constexpr int kWorths = 256;  // quarters of powers of two of cost per byte
static_assert(kClasses <= 1 << 15 && kWorths <= 1 << 8);  // ValuePolicy::State

int uses_class(std::uint32_t uses) {
  if (uses < 3) return static_cast<int>(uses);
  return uses < 5 ? 3 : uses < 9 ? 4 : 5;
}

class ValuePolicy final : public EvictionPolicy {
 public:
  ValuePolicy() : model_(kClasses) {}

  void put(EntryId entry, const EntryInfo& info) override {
    State& state = state_of(entry);
    if (!state.known) state.since = requests_;
    state.known = true;
    state.of_class = static_cast<std::uint64_t>(class_of(entry.kind, info));
    state.worth = static_cast<std::uint64_t>(worth_of(info));
    watch_expiry(entry, info);
    forest_.put(heap_of(class_of(state), worth_of(state)), entry, state.since);
  }

  void used(EntryId entry, const EntryInfo& info) override {
    State& state = state_of(entry);
    if (state.known) model_.reused(class_of(state), requests_ - state.since);
    state.known = true;
    state.since = requests_;
    state.of_class = static_cast<std::uint64_t>(class_of(entry.kind, info));
    state.worth = static_cast<std::uint64_t>(worth_of(info));
    if (forest_.contains(entry)) put(entry, info);
  }

  void hold(EntryId entry) override {
    forest_.erase(entry);
    expiries_[entry.kind].erase(entry.slot);
  }

  void erase(EntryId entry, bool evicted) override {
    hold(entry);
    State& state = state_of(entry);
    if (state.known && evicted) model_.evicted(class_of(state), requests_ - state.since);
    state = {};
  }

  void advance(std::uint64_t clock, double now) override {
    if (clock != clock_) ++requests_;
    clock_ = clock;
    now_ = now;
    for (EntryKind kind = 0; kind < kEntryKinds; ++kind) {
      while (!expiries_[kind].empty() && expiries_[kind].top_key() <= now_) {
        const std::uint32_t slot = expiries_[kind].top();
        put({kind, slot}, expiring_[kind][slot]);
      }
    }
  }

  std::size_t metadata_bytes() const override {
    std::size_t bytes = forest_.metadata_bytes();
    for (int kind = 0; kind < kEntryKinds; ++kind)
      bytes +=
          bytes_of(states_[kind]) + expiries_[kind].metadata_bytes() + bytes_of(expiring_[kind]);
    return bytes;
  }

  std::optional<EntryId> victim(unsigned kinds) override {
    std::optional<HeapForest::Item> lowest;
    double least = 0;
    for (const std::uint32_t heap : forest_.occupied()) {
      const HeapForest::Item first = forest_.first(heap);
      if ((kinds >> first.entry.kind & 1) == 0) continue;
      const double value = value_of(heap, first.key);
      if (!lowest || value < least || (value == least && before(first, *lowest))) {
        least = value;
        lowest = first;
      }
    }
    if (!lowest) return std::nullopt;
    return lowest->entry;
  }

  bool worth(const EntryInfo& candidate, EntryId victim) override {
    // A checkpoint: the only kind that is optional.
    const std::uint32_t heap = heap_of(class_of(victim.kind, candidate), worth_of(candidate));
    const State& state = state_of(victim);
    return value_of(heap, requests_) >
           value_of(heap_of(class_of(state), worth_of(state)), state.since);
  }

 private:
  // In 8 bytes.
  struct State {
    std::uint64_t since : 40 = 0;  // the request that last used it
    std::uint64_t of_class : 15 = 0;
    std::uint64_t worth : 8 = 0;
    std::uint64_t known : 1 = 0;
  };

  // Of equal values the oldest goes first; then by number, so that nothing
  // depends on the order of the heaps.
  static bool before(const HeapForest::Item& a, const HeapForest::Item& b) {
    return std::tie(a.key, a.entry.kind, a.entry.slot) <
           std::tie(b.key, b.entry.kind, b.entry.slot);
  }

  static int class_of(const State& state) { return static_cast<int>(state.of_class); }
  static int worth_of(const State& state) { return static_cast<int>(state.worth); }
  State& state_of(EntryId entry) {
    auto& states = states_[entry.kind];
    grow_to(states, entry.slot + std::size_t{1});
    return states[entry.slot];
  }

  static int class_of(EntryKind kind, const EntryInfo& info) {
    return (kind * kPlaces + static_cast<int>(info.place)) * kUses + uses_class(info.uses);
  }

  // Quarters of powers of two of cost per byte, times what the priority makes
  // of it: a factor of two for each 8 steps from the default.
  int worth_of(const EntryInfo& info) const {
    if (info.cost <= 0) return 0;
    const bool holds = info.retain_until == 0 || info.retain_until > now_;
    const int level = holds ? info.priority - kDefaultPriority : 0;
    const double quarters = 4 * std::log2(info.cost / info.bytes) + level / 2.0;
    return std::clamp(static_cast<int>(std::lround(quarters)) + kWorths / 2, 1, kWorths - 1);
  }
  static std::uint32_t heap_of(int of_class, int worth) {
    return static_cast<std::uint32_t>(of_class * kWorths + worth);
  }
  double value_of(std::uint32_t heap, std::uint64_t since) const {
    const int worth = static_cast<int>(heap % kWorths);
    if (worth == 0) return 0;
    return model_.density(static_cast<int>(heap / kWorths), requests_ - since) *
           std::exp2((worth - kWorths / 2) / 4.0);
  }

  void watch_expiry(EntryId entry, const EntryInfo& info) {
    if (info.retain_until <= now_) {
      expiries_[entry.kind].erase(entry.slot);
      return;
    }
    expiries_[entry.kind].put(entry.slot, info.retain_until);
    auto& infos = expiring_[entry.kind];
    if (infos.size() <= entry.slot) infos.resize(entry.slot + 1);
    infos[entry.slot] = info;
  }

  ReuseModel model_;
  HeapForest forest_;
  std::array<std::vector<State>, kEntryKinds> states_;
  std::array<IndexedHeap<double>, kEntryKinds> expiries_;  // of priorities held for a time
  std::array<std::vector<EntryInfo>, kEntryKinds> expiring_;
  std::uint64_t clock_ = 0;
  std::uint64_t requests_ = 0;
  double now_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_value_policy() { return std::make_unique<ValuePolicy>(); }

}  // namespace stemma
