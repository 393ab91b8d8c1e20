#include "cache/policies/heap_forest.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <utility>

namespace stemma {
namespace {

constexpr std::uint32_t kLast = HeapForest::kHeaps - 1;

TEST(HeapForest, HasTheSmallestKeyFirstAndThenTheSmallestSlot) {
  HeapForest forest;
  forest.put(7, {0, 5}, 20);
  forest.put(7, {0, 9}, 10);
  forest.put(7, {0, 3}, 10);
  ASSERT_EQ(forest.size(), 1u);
  EXPECT_EQ(forest.number(0), 7u);
  EXPECT_EQ(forest.first(0).key, 10u);
  EXPECT_EQ(forest.first(0).entry, (EntryId{0, 3}));
}

TEST(HeapForest, TakesTheLargestNumbers) {
  HeapForest forest;
  const EntryId entry{2, 4'000'000};
  forest.put(kLast, entry, HeapForest::kKeys - 1);
  EXPECT_TRUE(forest.contains(entry));
  EXPECT_EQ(forest.number(0), kLast);
  EXPECT_EQ(forest.first(0).key, HeapForest::kKeys - 1);
  EXPECT_EQ(forest.first(0).entry, entry);
}

// Against sets.
TEST(HeapForest, FollowsWhatHappensToItsEntries) {
  HeapForest forest;
  std::map<std::uint32_t, std::set<std::pair<std::uint64_t, std::uint32_t>>> heaps;
  std::map<std::pair<EntryKind, std::uint32_t>, std::pair<std::uint32_t, std::uint64_t>> entries;
  std::mt19937 random(3);
  const auto forget = [&](EntryId entry) {
    const auto known = entries.find({entry.kind, entry.slot});
    if (known == entries.end()) return;
    const auto [heap, key] = known->second;
    heaps[heap].erase({key, entry.slot});
    if (heaps[heap].empty()) heaps.erase(heap);
    entries.erase(known);
  };
  for (int i = 0; i < 200'000; ++i) {
    const auto kind = static_cast<EntryKind>(random() % kEntryKinds);
    const EntryId entry{kind, static_cast<std::uint32_t>(random() % 3000)};
    forget(entry);
    if (random() % 3 == 0) {
      forest.erase(entry);
    } else {
      const std::uint32_t heap = random() % (1 + i / 20'000) * kEntryKinds + kind;
      const std::uint64_t key = random() % 500;
      forest.put(heap, entry, key);
      heaps[heap].insert({key, entry.slot});
      entries[{kind, entry.slot}] = {heap, key};
    }
    EXPECT_EQ(forest.contains(entry), entries.contains({kind, entry.slot}));
    if (i % 97 != 0) continue;
    ASSERT_EQ(forest.size(), heaps.size());
    for (std::size_t h = 0; h < forest.size(); ++h) {
      const auto& expected = heaps.at(forest.number(h));
      EXPECT_EQ(forest.first(h).key, expected.begin()->first);
      EXPECT_EQ(forest.first(h).entry.slot, expected.begin()->second);
      EXPECT_EQ(forest.first(h).entry.kind, forest.number(h) % kEntryKinds);
    }
  }
}

}  // namespace
}  // namespace stemma
