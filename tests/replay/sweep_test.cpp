#include "replay/sweep.h"

#include <gmock/gmock.h>

#include "small_traces.h"

namespace stemma::replay {
namespace {

const ModelCosts kModel{"small", 1, 1, {1000, 500, 300}, 10, 1e6, 1e6, 8, "made up"};

SweepConfig small_sweep() {
  SweepConfig config;
  config.budgets = {60'000, 1e6};
  config.systems = {"lru"};
  config.orders = 5;
  config.load.shuffle = true;
  config.load.profile = {"test", 1000, 10};
  return config;
}

TEST(Sweep, FillsEveryPlaceWhateverTheThreads) {
  const Trace trace = test::read(test::kMooncake).value();
  SweepConfig config = small_sweep();
  const SweepResult two = run_sweep(trace, kModel, config, {}).value();
  config.threads = 1;
  const SweepResult one = run_sweep(trace, kModel, config, {}).value();
  ASSERT_EQ(two.budgets.size(), 2u);
  for (std::size_t budget = 0; budget < 2; ++budget) {
    const auto& orders = two.budgets[budget].systems.at(0).orders;
    ASSERT_EQ(orders.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(orders[i].requests, 3u);
      EXPECT_EQ(orders[i].hit_tokens, one.budgets[budget].systems[0].orders[i].hit_tokens);
    }
  }
}

TEST(Sweep, FailsWithTheReason) {
  const Trace trace = test::read(test::kMooncake).value();
  SweepConfig config = small_sweep();
  config.systems = {"magic"};
  EXPECT_EQ(run_sweep(trace, kModel, config, {}).error().code(), ErrorCode::cache_unknown_policy);
  config.systems = {"lru"};
  config.budgets = {10};
  EXPECT_EQ(run_sweep(trace, kModel, config, {}).error().code(), ErrorCode::replay_bad_setting);
}

TEST(Spread, IsTheSampleDeviation) {
  const Spread s = spread({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(s.mean, 2.5);
  EXPECT_NEAR(s.sd, 1.290994, 1e-6);
  EXPECT_NEAR(s.standard_error, 0.645497, 1e-6);
}

TEST(Paired, CountsOrdersWonAndLost) {
  const auto system = [](std::vector<std::uint64_t> hits) {
    SystemResult result{"x", {}};
    for (const std::uint64_t hit : hits) {
      ReplayResult& order = result.orders.emplace_back();
      order.prompt_tokens = 100;
      order.hit_tokens = hit;
    }
    return result;
  };
  const PairedDifference paired = paired_hits(system({50, 60, 70, 40}), system({40, 50, 70, 60}));
  EXPECT_EQ(paired.wins, 2);
  EXPECT_EQ(paired.losses, 1);
  EXPECT_NEAR(paired.difference.mean, 0, 1e-12);
}

}  // namespace
}  // namespace stemma::replay
