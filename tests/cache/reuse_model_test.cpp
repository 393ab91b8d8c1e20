#include "cache/policies/reuse_model.h"

#include "gtest/gtest.h"

namespace stemma {
namespace {

// Two classes of one group: half of the first's entries are reused at age 10, a twentieth of the
// second's; the others leave at age 20.
TEST(ReuseModel, TellsClassesApartByHowOftenTheyAreReused) {
  ReuseModel model(1, {2});
  for (int i = 0; i < 20000; ++i) {
    i % 2 == 0 ? model.reused(0, 10) : model.left(0, 20);
    i % 20 == 0 ? model.reused(1, 10) : model.left(1, 20);
  }
  EXPECT_GT(model.index(0, 0), 5 * model.index(1, 0));
}

TEST(ReuseModel, AnEntryPastTheAgeOfReuseIsWorthLittle) {
  ReuseModel model(1, {1});
  for (int i = 0; i < 20000; ++i) {
    i % 2 == 0 ? model.reused(0, 10) : model.left(0, 1000);
  }
  EXPECT_GT(model.index(0, 5), 20 * model.index(0, 100));
}

// What the cache gave up young says nothing about old age: of ten entries nine leave at age 5 and
// one stays and is reused at age 50; of those that reach 50 every one is.
TEST(ReuseModel, LeavingEarlyIsNotAMiss) {
  ReuseModel censored(1, {1});
  ReuseModel watched(1, {1});
  for (int i = 0; i < 40000; ++i) {
    i % 10 == 0 ? censored.reused(0, 50) : censored.left(0, 5);
    watched.reused(0, 50);
  }
  // Fewer events reach age 50 there, so the common curve weighs more.
  EXPECT_NEAR(censored.index(0, 40) / watched.index(0, 40), 1, 0.25);
}

// Of two classes one in ten entries is reused at age 100. The others of the first are given up at age
// 1000; those of the second are all still there, which only the census tells.
TEST(ReuseModel, WhatIsStillThereWasNotReusedEither) {
  ReuseModel* counted = nullptr;
  int kept = 0;
  ReuseModel model(1, {2}, [&] {
    for (int i = 0; i < kept; ++i) counted->present(1, 1000, 1);
  });
  counted = &model;
  for (int i = 0; i < 20000; ++i) {
    i % 10 == 0 ? model.reused(0, 100) : model.left(0, 1000);
    if (i % 10 == 0) model.reused(1, 100);
    if (i % 10 != 0 && kept < 9000) ++kept;
  }
  EXPECT_LT(model.index(1, 0) / model.index(0, 0), 1.6);
  ReuseModel blind(1, {2});
  for (int i = 0; i < 20000; ++i) {
    i % 10 == 0 ? blind.reused(0, 100) : blind.left(0, 1000);
    if (i % 10 == 0) blind.reused(1, 100);
  }
  EXPECT_GT(blind.index(1, 0) / blind.index(0, 0), 3);
}

// An index looks ahead: before a sure reuse at age 100 an entry is worth the more the closer it is.
TEST(ReuseModel, WorthRisesTowardsTheAgeOfReuse) {
  ReuseModel model(1, {1});
  for (int i = 0; i < 20000; ++i) model.reused(0, 100);
  EXPECT_GT(model.index(0, 60), 1.2 * model.index(0, 0));
}

TEST(ReuseModel, AClassWithoutDataIsItsGroup) {
  ReuseModel model(2, {2});
  for (int i = 0; i < 20000; ++i) model.reused(0, 10);
  for (int i = 0; i < 20000; ++i) model.left(2, 1000);
  EXPECT_GT(model.index(1, 0), 5 * model.index(3, 0));
}

TEST(ReuseModel, ForgetsWhatWas) {
  ReuseModel model(1, {1});
  for (int i = 0; i < 20000; ++i) model.reused(0, 10);
  const double busy = model.index(0, 0);
  for (int i = 0; i < 400000; ++i) model.left(0, 1000);
  EXPECT_LT(model.index(0, 0), busy / 5);
}

}  // namespace
}  // namespace stemma
