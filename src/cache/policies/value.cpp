// What is worth least goes first: expected reuses per request (ReuseModel) x cost of computing it
// again / bytes freed.
//
// The model learns how entries are reused by where they lie on their path, by how many requests led
// up to them or used them, and by how much they would cost, as entries here go. Entries of one
// class and of nearly equal cost per byte (a quarter of a power of two) wait in one heap by last
// use: the oldest of each heap is a candidate, and the candidate of least value is the victim.
//
// Costs: O(log entries) a change, amortized: once in some hundreds of changes the model looks at
// all entries, or at every k-th if there are many. A victim O(heaps that are not empty), some
// hundreds at most.

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "cache/chunked.h"
#include "cache/indexed_heap.h"
#include "cache/policies/heap_forest.h"
#include "cache/policies/policies.h"
#include "cache/policies/reuse_model.h"

namespace stemma {

namespace {

constexpr int kVisits = 5;    // 1, 2, 3-4, 5-8, more
constexpr int kSizes = 7;     // no cost; then powers of four of the usual cost, from 1/16 or less
constexpr int kWorths = 256;  // of cost per byte, in quarters of powers of two
constexpr int kClasses = kEntryPlaces * kVisits * kSizes;
static_assert(kClasses <= 1 << 14 && kWorths <= 1 << 8);  // ValuePolicy::State
static_assert(kClasses * kWorths * kEntryKinds <= HeapForest::kHeaps);

constexpr std::size_t kCensus = 8192;  // entries of a kind that the model looks at, about
constexpr double kUsualOf = 1000;      // the latest entries, by which the usual cost is known

// Requests that led up to an entry on its path, and those that used it.
int visits_class(const EntryInfo& info) {
  const std::uint32_t visits = info.turn + std::min(info.uses, 16u);
  return visits <= 2 ? (visits == 2 ? 1 : 0) : visits <= 4 ? 2 : visits <= 8 ? 3 : 4;
}

class ValuePolicy final : public EvictionPolicy {
 public:
  ValuePolicy() : model_(kEntryPlaces, {kVisits, kSizes}, [this] { count_entries(); }) {}

  void put(EntryId entry, const EntryInfo& info) override {
    State& state = state_of(entry);
    if (!state.known) state.since = requests_;
    state.known = true;
    learn_usual_cost(info.cost);
    describe(state, info);
    watch_expiry(entry, info);
    forest_.put(heap_of(state, entry.kind), entry, state.since);
  }

  void used(EntryId entry, const EntryInfo& info) override {
    State& state = state_of(entry);
    if (state.known && !info.stands_for_another)
      model_.reused(class_of(state), requests_ - state.since);
    state.known = true;
    state.since = requests_;
    describe(state, info);
    if (forest_.contains(entry)) put(entry, info);
  }

  void hold(EntryId entry) override {
    forest_.erase(entry);
    expiries_[entry.kind].erase(entry.slot);
  }

  void erase(EntryId entry, bool evicted) override {
    hold(entry);
    State& state = state_of(entry);
    if (state.known && evicted && !state.stands_for_another)
      model_.left(class_of(state), requests_ - state.since);
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
      bytes += states_[kind].metadata_bytes() + expiries_[kind].metadata_bytes() +
               expiring_[kind].metadata_bytes();
    return bytes;
  }

  std::optional<EntryId> victim(unsigned kinds) override {
    std::optional<HeapForest::Item> lowest;
    double least = 0;
    for (std::size_t i = 0; i < forest_.size(); ++i) {
      const std::uint32_t heap = forest_.number(i);
      const HeapForest::Item first = forest_.first(i);
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
    if (candidate.place < EntryPlace::fork) return false;
    State fresh;
    describe(fresh, candidate);
    const State& state = state_of(victim);
    return value_of(heap_of(fresh, victim.kind), requests_) >
           value_of(heap_of(state, victim.kind), state.since);
  }

 private:
  // In 8 bytes.
  struct State {
    std::uint64_t since : 40 = 0;  // the request that last used it
    std::uint64_t of_class : 14 = 0;
    std::uint64_t worth : 8 = 0;
    std::uint64_t known : 1 = 0;
    std::uint64_t stands_for_another : 1 = 0;
  };

  // Of equal values the oldest goes first; then by number, so that nothing depends on the order of
  // the heaps.
  static bool before(const HeapForest::Item& a, const HeapForest::Item& b) {
    return std::tie(a.key, a.entry.kind, a.entry.slot) <
           std::tie(b.key, b.entry.kind, b.entry.slot);
  }

  State& state_of(EntryId entry) {
    auto& states = states_[entry.kind];
    states.grow_to(entry.slot + std::size_t{1});
    return states[entry.slot];
  }

  // By how much more or less than usual an entry costs.
  int size_class(double cost) const {
    if (cost <= 0) return 0;
    const auto fours = static_cast<int>(std::lround((std::log2(cost) - usual_log_cost_) / 2));
    return std::clamp(fours + 3, 1, kSizes - 1);
  }

  void learn_usual_cost(double cost) {
    if (cost <= 0) return;
    costs_ = std::min(costs_ + 1, kUsualOf);
    usual_log_cost_ += (std::log2(cost) - usual_log_cost_) / costs_;
  }

  void count_entries() {
    for (const Chunked<State>& states : states_) {
      const std::size_t step = states.size() / kCensus + 1;
      for (std::size_t slot = 0; slot < states.size(); slot += step) {
        const State& state = states[slot];
        if (state.known && !state.stands_for_another)
          model_.present(class_of(state), requests_ - state.since, static_cast<double>(step));
      }
    }
  }

  void describe(State& state, const EntryInfo& info) const {
    const int group = static_cast<int>(info.place);
    state.of_class = static_cast<std::uint64_t>((group * kVisits + visits_class(info)) * kSizes +
                                                size_class(info.cost));
    state.stands_for_another = info.stands_for_another;
    state.worth = 0;
    if (info.cost <= 0) return;
    // The priority counts for a factor of two for each 8 steps from the default.
    const bool holds = info.retain_until == 0 || info.retain_until > now_;
    const int level = holds ? info.priority - kDefaultPriority : 0;
    // Infinite where no bytes would be freed.
    const double quarters = 4 * std::log2(info.cost / info.bytes) + level / 2.0;
    const double bounded = std::clamp<double>(quarters, -kWorths, kWorths);
    state.worth = static_cast<std::uint64_t>(
        std::clamp(static_cast<int>(std::lround(bounded)) + kWorths / 2, 1, kWorths - 1));
  }

  static int class_of(const State& state) { return static_cast<int>(state.of_class); }
  // A heap has entries of one kind, class and worth.
  static std::uint32_t heap_of(const State& state, EntryKind kind) {
    return static_cast<std::uint32_t>((state.of_class * kWorths + state.worth) * kEntryKinds +
                                      kind);
  }
  double value_of(std::uint32_t heap, std::uint64_t since) {
    const int worth = static_cast<int>(heap / kEntryKinds % kWorths);
    if (worth == 0) return 0;
    return model_.index(static_cast<int>(heap / kEntryKinds / kWorths), requests_ - since) *
           std::exp2((worth - kWorths / 2) / 4.0);
  }

  void watch_expiry(EntryId entry, const EntryInfo& info) {
    if (info.retain_until <= now_) {
      expiries_[entry.kind].erase(entry.slot);
      return;
    }
    expiries_[entry.kind].put(entry.slot, info.retain_until);
    expiring_[entry.kind].grow_to(entry.slot + std::size_t{1});
    expiring_[entry.kind][entry.slot] = info;
  }

  ReuseModel model_;
  HeapForest forest_;
  std::array<Chunked<State>, kEntryKinds> states_;
  std::array<IndexedHeap<double>, kEntryKinds> expiries_;  // of priorities held for a time
  std::array<Chunked<EntryInfo>, kEntryKinds> expiring_;
  std::uint64_t clock_ = 0;
  std::uint64_t requests_ = 0;
  double usual_log_cost_ = 0;  // mean of log2
  double costs_ = 0;           // that are in it
  double now_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_value_policy() { return std::make_unique<ValuePolicy>(); }

}  // namespace stemma
