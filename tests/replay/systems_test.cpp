#include "replay/systems.h"

#include <gtest/gtest.h>

#include "small_traces.h"

namespace stemma::replay {
namespace {

const ModelCosts kModel{"small", 2, 1, {1000, 500, 300}, 10, 1e6, 1e6, 8, "made up"};

TEST(Systems, APolicySavesTokensOrFlops) {
  const UnitSize unit{64, 1};
  CacheSettings settings{.budget_bytes = 60'000};
  const CostModel tokens = make_cache_config(kModel, settings, unit)->cost;
  EXPECT_EQ(tokens.of(0, 3), 3 * 64);
  EXPECT_EQ(tokens.of(10, 13), 3 * 64);

  settings.cost = CostUnit::flops;
  const CostModel flops = make_cache_config(kModel, settings, unit)->cost;
  EXPECT_NEAR(flops.of(0, 3), kModel.flops(3 * 64), 1e-6 * kModel.flops(3 * 64));
  EXPECT_GT(flops.of(10, 13), flops.of(0, 3));
}

TEST(Systems, HaveNamesWithWhatTheyStoreAndSave) {
  const Trace trace = test::read(test::kMooncake).value();
  const SystemInput input{trace, kModel, {512, 1}, {.budget_bytes = 60'000}, nullptr, nullptr};
  for (const char* const name : {"infinite", "value", "value@ends", "value@flops",
                                 "value@ends@flops", "marconi:1@ends", "lru@ends"}) {
    EXPECT_TRUE(make_system(name, input)) << name;
  }
  EXPECT_EQ(make_system("value@magic", input).error().code(), ErrorCode::replay_bad_setting);
  EXPECT_EQ(make_system("value@", input).error().code(), ErrorCode::replay_bad_setting);
  EXPECT_EQ(make_system("magic@ends", input).error().code(), ErrorCode::cache_unknown_policy);
}

}  // namespace
}  // namespace stemma::replay
