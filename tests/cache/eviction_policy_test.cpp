#include "cache/eviction_policy.h"

#include <vector>

#include "gtest/gtest.h"

namespace stemma {
namespace {

std::vector<int> order_of_eviction(EvictionPolicy& policy) {
  std::vector<int> order;
  while (const auto victim = policy.victim()) {
    order.push_back(static_cast<int>(*victim));
    policy.erase(*victim);
  }
  return order;
}

TEST(LruPolicy, GivesUpTheLeastRecentlyUsedFirst) {
  auto policy = make_eviction_policy("lru").value();
  policy->insert(EntryId{1}, {.depth = 5, .recompute = 5, .last_used = 10});
  policy->insert(EntryId{2}, {.depth = 5, .recompute = 5, .last_used = 11});
  policy->insert(EntryId{3}, {.depth = 5, .recompute = 5, .last_used = 12});
  policy->touch(EntryId{1}, {.depth = 5, .recompute = 5, .last_used = 13});
  policy->erase(EntryId{9});
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{2, 3, 1}));
}

TEST(LruPolicy, GivesUpTheDeeperOfTwoUsedTogether) {
  auto policy = make_eviction_policy("lru").value();
  policy->insert(EntryId{1}, {.depth = 10, .recompute = 10, .last_used = 1});
  policy->insert(EntryId{2}, {.depth = 30, .recompute = 10, .last_used = 1});
  policy->insert(EntryId{3}, {.depth = 20, .recompute = 10, .last_used = 1});
  EXPECT_EQ(order_of_eviction(*policy), (std::vector<int>{2, 3, 1}));
}

TEST(EvictionPolicy, UnknownNamesAreAnError) {
  const auto policy = make_eviction_policy("mru");
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().code(), ErrorCode::cache_unknown_policy);
  EXPECT_EQ(policy.error().message(), "unknown eviction policy mru; known are lru");
}

}  // namespace
}  // namespace stemma
