#include "replay/plan.h"

#include <gmock/gmock.h>

#include "small_traces.h"

namespace stemma::replay {
namespace {

using ::testing::HasSubstr;

TEST(Plan, SaysWhatAStateWeighsInTokensOfKv) {
  const ModelCosts model = find_model_preset("qwen3.5-35b-a3b").value();
  const std::string text = plan_text(model, 0);
  EXPECT_THAT(text, HasSubstr("20480 bytes a token"));
  EXPECT_THAT(text, HasSubstr("3145 tokens of KV"));  // f32
  EXPECT_THAT(text, HasSubstr("864 tokens of KV"));   // int8
}

TEST(Plan, ABudgetHoldsSessionsByTheirKvAndOneCheckpoint) {
  const ModelCosts model{"small", 1, 1, {1000, 500, 300}, 10, 1e6, 1e6, 8, "made up"};
  const auto f32 = holdings(model, StateCodec::f32, 1e6);
  EXPECT_EQ(f32[0].length, 1024);
  EXPECT_EQ(f32[0].sessions, 88);  // 11,240 bytes each
  EXPECT_EQ(holdings(model, StateCodec::int8, 1e6)[0].sessions, 94);
}

TEST(Advice, IsTheTrialThatSavesMost) {
  const ModelCosts model{"small", 1, 1, {10'000, 5'000, 3'000}, 10, 1e6, 1e6, 8, "made up"};
  const Trace trace = test::read(test::kMooncake).value();
  LoadConfig load;
  load.concurrency = 1;
  const Advice advice = advise(trace, model, 100'000, "lru", load, {}).value();
  EXPECT_EQ(advice.trials.size(), 3u * 5 + 4);
  for (const Trial& trial : advice.trials) {
    EXPECT_LE(trial.result.saved_flops, advice.trials.front().result.saved_flops);
  }
  EXPECT_THAT(advice_text(advice, model), HasSubstr("recommended: "));
}

TEST(Advice, AModelWithoutStatesHasNothingToSplit) {
  const ModelCosts model{"dense", 2, 0, {0, 0, 0}, 20, 1e6, 1e6, 8, "made up"};
  const Advice advice =
      advise(test::read(test::kMooncake).value(), model, 100'000, "lru", {}, {}).value();
  EXPECT_EQ(advice.trials.size(), 1u);
}

}  // namespace
}  // namespace stemma::replay
