#include "cache/eviction_policy.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stemma {
namespace {

constexpr unsigned kAll = 7;

// Entries of kind 0 by slot, until none is left.
std::vector<int> order_of_eviction(EvictionPolicy& policy) {
  std::vector<int> order;
  while (const auto victim = policy.victim(kAll)) {
    order.push_back(static_cast<int>(victim->slot));
    policy.erase(*victim, true);
  }
  return order;
}

EntryId entry(std::uint32_t slot) { return {0, slot}; }

std::unique_ptr<EvictionPolicy> policy_named(const char* name) {
  return make_eviction_policy(name).value();
}

TEST(LruPolicy, GivesUpTheLeastRecentlyUsedFirst) {
  const auto policy = policy_named("lru");
  policy->put(entry(1), {.depth = 5, .last_used = 10});
  policy->put(entry(2), {.depth = 5, .last_used = 11});
  policy->put(entry(3), {.depth = 5, .last_used = 12});
  policy->used(entry(1), {.depth = 5, .last_used = 13});
  policy->erase(entry(9), false);
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{2, 3, 1}));
}

TEST(LruPolicy, GivesUpTheDeeperOfTwoUsedTogether) {
  const auto policy = policy_named("lru");
  policy->put(entry(1), {.depth = 10, .last_used = 1});
  policy->put(entry(2), {.depth = 30, .last_used = 1});
  policy->put(entry(3), {.depth = 20, .last_used = 1});
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{2, 3, 1}));
}

TEST(LfuPolicy, GivesUpTheLeastUsedFirstAndOfTheseTheOldest) {
  const auto policy = policy_named("lfu");
  policy->put(entry(1), {.last_used = 1, .uses = 3});
  policy->put(entry(2), {.last_used = 9, .uses = 1});
  policy->put(entry(3), {.last_used = 8, .uses = 1});
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{3, 2, 1}));
}

TEST(SlruPolicy, ProtectsWhatWasUsedTwice) {
  const auto policy = policy_named("slru");
  policy->put(entry(1), {.last_used = 1, .uses = 2});
  policy->put(entry(2), {.last_used = 2, .uses = 7});
  policy->put(entry(3), {.last_used = 9, .uses = 1});
  policy->put(entry(4), {.last_used = 8, .uses = 0});
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{4, 3, 1, 2}));
}

TEST(PriorityPolicy, GivesUpTheLowestPriorityFirst) {
  const auto policy = policy_named("priority");
  policy->put(entry(1), {.last_used = 1, .priority = 80});
  policy->put(entry(2), {.last_used = 9, .priority = 10});
  policy->put(entry(3), {.last_used = 5});
  policy->put(entry(4), {.last_used = 4});
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{2, 4, 3, 1}));
}

TEST(PriorityPolicy, WhatIsNewTakesNoPlaceFromAHigherPriority) {
  const auto policy = policy_named("priority");
  policy->put(entry(1), {.last_used = 1, .priority = 50});
  EXPECT_TRUE(policy->worth({.last_used = 9, .priority = 51}, entry(1)));
  EXPECT_TRUE(policy->worth({.last_used = 9, .priority = 50}, entry(1)));
  EXPECT_FALSE(policy->worth({.last_used = 9, .priority = 49}, entry(1)));
}

TEST(PriorityPolicy, APriorityHoldsOnlyForItsTime) {
  const auto policy = policy_named("priority");
  policy->advance(0, 100);
  policy->put(entry(1), {.last_used = 1, .priority = 80, .retain_until = 160});
  policy->put(entry(2), {.last_used = 2});
  EXPECT_EQ(policy->victim(kAll)->slot, 2u);
  policy->advance(0, 159);
  EXPECT_EQ(policy->victim(kAll)->slot, 2u);
  policy->advance(0, 160);
  EXPECT_EQ(policy->victim(kAll)->slot, 1u);
}

TEST(MarconiPolicy, WeighsRecencyAgainstCostPerByte) {
  // Entry 1 is old and dear, entry 2 new and cheap.
  const EntryInfo dear{.depth = 100, .cost = 100, .bytes = 1, .last_used = 1};
  const EntryInfo cheap{.depth = 100, .cost = 1, .bytes = 1, .last_used = 9};
  for (const auto& [name, first] : {std::pair("marconi:0", 1u), {"marconi:2", 2u}}) {
    const auto policy = policy_named(name);
    policy->advance(10, 0);
    policy->put(entry(1), dear);
    policy->put(entry(2), cheap);
    EXPECT_EQ(policy->victim(kAll)->slot, first) << name;
  }
}

TEST(MarconiPolicy, KeepsForksUntilNothingElseIsLeft) {
  const auto policy = policy_named("marconi:1");
  policy->put(entry(1), {.cost = 1, .last_used = 1, .place = EntryPlace::fork});
  policy->put(entry(2), {.cost = 9, .last_used = 9});
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{2, 1}));
}

// The search by classes against looking at every entry.
TEST(MarconiPolicy, FindsTheLeastScore) {
  const auto policy = policy_named("marconi:0.7");
  std::vector<EntryInfo> infos;
  std::uint32_t random = 1;
  for (std::uint32_t i = 0; i < 500; ++i) {
    random = random * 1664525 + 1013904223;
    infos.push_back({.depth = 1,
                     .cost = static_cast<double>(random >> 20) + 1,
                     .bytes = 1 + (random >> 8) % 100 * 1.0,
                     .last_used = (random >> 4) % 900});
    policy->put(entry(i), infos.back());
  }
  policy->advance(1000, 0);
  std::vector<bool> gone(infos.size());
  for (std::size_t round = 0; round < infos.size(); ++round) {
    const auto recency = [](const EntryInfo& e) {
      return 1 / (1000.0 - static_cast<double>(e.last_used) + 1);
    };
    const auto worth = [](const EntryInfo& e) { return e.cost / e.bytes; };
    double r0 = 1, r1 = 0, e0 = 1e9, e1 = 0;
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (gone[i]) continue;
      r0 = std::min(r0, recency(infos[i])), r1 = std::max(r1, recency(infos[i]));
      e0 = std::min(e0, worth(infos[i])), e1 = std::max(e1, worth(infos[i]));
    }
    const auto score = [&](const EntryInfo& e) {
      return (r1 > r0 ? (recency(e) - r0) / (r1 - r0) : 0) +
             0.7 * (e1 > e0 ? (worth(e) - e0) / (e1 - e0) : 0);
    };
    double least = 1e9;
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (!gone[i]) least = std::min(least, score(infos[i]));
    }
    const auto victim = policy->victim(kAll);
    ASSERT_TRUE(victim);
    ASSERT_FALSE(gone[victim->slot]);
    ASSERT_DOUBLE_EQ(score(infos[victim->slot]), least);
    gone[victim->slot] = true;
    policy->erase(*victim, true);
  }
}

TEST(SegLenPolicy, KeepsWhatTakesLongToReplay) {
  const auto policy = policy_named("seglen");
  policy->advance(10, 0);
  policy->put(entry(1), {.cost = 5000, .last_used = 1});
  policy->put(entry(2), {.cost = 10, .last_used = 9});
  EXPECT_EQ(policy->victim(kAll)->slot, 2u);
}

TEST(EveryPolicy, NamesOnlyEntriesOfTheKindsAskedFor) {
  for (const char* name : {"value", "lru", "lfu", "slru", "priority", "marconi", "seglen"}) {
    const auto policy = policy_named(name);
    policy->put({0, 5}, {.cost = 1, .last_used = 1});
    policy->put({1, 6}, {.cost = 2, .last_used = 2});
    EXPECT_EQ(policy->victim(1)->slot, 5u) << name;
    EXPECT_EQ(policy->victim(2)->slot, 6u) << name;
    EXPECT_FALSE(policy->victim(4)) << name;
    policy->hold({1, 6});
    EXPECT_FALSE(policy->victim(2)) << name;
    policy->hold({1, 6});
    policy->erase({0, 5}, true);
    EXPECT_FALSE(policy->victim(kAll)) << name;
  }
}

// The tail of a leaf that ends inside a page which stays frees nothing; what it costs may be
// nothing too.
TEST(EveryPolicy, TakesEntriesThatFreeNothing) {
  for (const char* name : {"value", "lru", "lfu", "slru", "priority", "marconi", "seglen"}) {
    const auto policy = policy_named(name);
    for (int round = 0; round < 3; ++round) {
      for (std::uint32_t slot = 0; slot < 40; ++slot) {
        policy->put(entry(slot), {.depth = static_cast<Depth>(slot),
                                  .cost = slot % 3 == 0 ? 0.0 : slot,
                                  .bytes = slot % 2 == 0 ? 0.0 : slot,
                                  .last_used = slot + 100u * static_cast<unsigned>(round)});
      }
    }
    EXPECT_EQ(order_of_eviction(*policy).size(), 40u) << name;
  }
}

TEST(EvictionPolicy, UnknownNamesAreAnError) {
  for (const char* name : {"mru", "", "marconi:", "marconi:x", "marconi:-1", "marconi:1x", "LRU"}) {
    const auto policy = make_eviction_policy(name);
    ASSERT_FALSE(policy) << name;
    EXPECT_EQ(policy.error().code(), ErrorCode::cache_unknown_policy);
    EXPECT_EQ(policy.error().message(),
              "unknown eviction policy " + std::string(name) +
                  "; known are value, lru, lfu, slru, priority, marconi (or "
                  "marconi:ALPHA, ALPHA "
                  ">= 0), seglen");
  }
}

}  // namespace
}  // namespace stemma
