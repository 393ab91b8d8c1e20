#include "cache/slot_pool.h"

#include <set>
#include <vector>

#include "core/ids.h"
#include "gtest/gtest.h"

namespace stemma {
namespace {

using Pool = SlotPool<RowId>;

void expect_counts(const Pool& pool, std::uint32_t free, std::uint32_t evictable,
                   std::uint32_t pinned) {
  EXPECT_EQ(pool.free(), free);
  EXPECT_EQ(pool.evictable(), evictable);
  EXPECT_EQ(pool.pinned(), pinned);
  EXPECT_EQ(pool.free() + pool.evictable() + pool.pinned(), pool.capacity());
}

TEST(SlotPool, HandsOutEachSlotOnceAndTakesItBack) {
  Pool pool(3);
  std::vector<Pool::Ref> taken;
  std::set<RowId> ids;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(std::move(*pool.take()));
    ids.insert(taken.back().id());
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_FALSE(pool.take());
  taken.erase(taken.begin());
  EXPECT_TRUE(pool.take());
  taken.clear();
  expect_counts(pool, 3, 0, 0);
}

TEST(SlotPool, ASlotIsPinnedWhileOneReferenceIs) {
  Pool pool(2);
  Pool::Ref tree = *pool.take();
  expect_counts(pool, 1, 0, 1);
  tree.set_pinned(false);
  expect_counts(pool, 1, 1, 0);
  {
    const Pool::Ref lease = tree.share(true);
    const Pool::Ref other = tree.share(true);
    EXPECT_EQ(lease.id(), tree.id());
    EXPECT_FALSE(tree.unique());
    EXPECT_EQ(pool.use(tree.id()), (Pool::Use{3, 2}));
    expect_counts(pool, 1, 0, 1);
  }
  EXPECT_TRUE(tree.unique());
  expect_counts(pool, 1, 1, 0);
}

TEST(SlotPool, ASlotOutlivesTheReferenceItWasSharedFrom) {
  Pool pool(1);
  std::optional<Pool::Ref> tree = pool.take();
  tree->set_pinned(false);
  std::optional<Pool::Ref> copy_source = tree->share(true);
  tree.reset();
  expect_counts(pool, 0, 0, 1);
  copy_source.reset();
  expect_counts(pool, 1, 0, 0);
}

TEST(SlotPool, MovedReferencesCountOnce) {
  Pool pool(2);
  Pool::Ref a = *pool.take();
  Pool::Ref b = *pool.take();
  b = std::move(a);
  expect_counts(pool, 1, 0, 1);
  Pool::Ref c(std::move(b));
  expect_counts(pool, 1, 0, 1);
  c = c.share(false);
  expect_counts(pool, 1, 1, 0);
}

TEST(SlotPool, SlotsCanHaveTheirMemoryFromTheStart) {
  ByteBudget budget(50);
  Pool pool(10, 10, &budget);
  pool.warm_up(3);
  EXPECT_EQ(pool.warm(), 3u);
  EXPECT_EQ(budget.room(), 20u);
  EXPECT_EQ(pool.available(), 5u);
  std::vector<Pool::Ref> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(std::move(*pool.take()));
  EXPECT_EQ(budget.room(), 20u) << "those that have memory go first";
  for (const Pool::Ref& slot : taken) EXPECT_LT(index_of(slot.id()), 3u);
  taken.clear();

  Pool other(10, 10, &budget);
  other.warm_up(10);
  EXPECT_EQ(other.warm(), 2u) << "as far as the budget goes";
}

TEST(SlotPool, MayBeEmpty) {
  Pool pool(0);
  EXPECT_FALSE(pool.take());
  expect_counts(pool, 0, 0, 0);
}

}  // namespace
}  // namespace stemma
