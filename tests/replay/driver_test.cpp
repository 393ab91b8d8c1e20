#include <gmock/gmock.h>

#include "replay/driver.h"
#include "replay/systems.h"
#include "small_traces.h"

namespace stemma::replay {
namespace {

const ModelCosts kModel{"small", 1, 1, {1000, 500, 300}, 10, 1e6, 1e6, 8, "made up"};

struct SmallReplay {
  std::string text = test::kMooncake;
  Depth unit = 1;
  double budget = 1e9;
  std::string system = "lru";
  int concurrency = 4;
  std::optional<std::uint64_t> shuffle = std::nullopt;

  ReplayResult result() const {
    const Trace trace = test::read(text).value();
    const UnitSize size = unit_size(trace, unit).value();
    CacheSettings settings;
    settings.budget_bytes = budget;
    settings.running = concurrency;
    const auto cache = make_system(system, {trace, kModel, size, settings}).value();
    return replay(trace,
                  {.unit = size,
                   .profile = {"test", 1000, 10},
                   .concurrency = concurrency,
                   .chunk_tokens = 256,
                   .shuffle = shuffle},
                  kModel, *cache);
  }
};

TEST(Replay, CountsEveryTokenOnceAndReusesWhatIsShared) {
  const ReplayResult result = SmallReplay{}.result();
  EXPECT_EQ(result.requests, 3u);
  EXPECT_EQ(result.prompt_tokens, 3400u);
  EXPECT_EQ(result.answer_tokens, 135u);
  // The second prompt shares a block of 512; the third all that the first computed, 1,100 + 99
  // tokens.
  EXPECT_EQ(result.hit_tokens, 512u + 1199u);
  EXPECT_EQ(result.saved_flops, kModel.flops(512) + kModel.flops(1199));
}

TEST(Replay, BlocksReuseWholeBlocks) {
  EXPECT_EQ((SmallReplay{.unit = 512}.result().hit_tokens), 512u + 1024u);
}

TEST(Replay, TheInfiniteCacheIsTheUpperBound) {
  EXPECT_EQ((SmallReplay{.system = "infinite"}.result().hit_tokens), 512u + 1199u);
  // Two prompts by turns, and room for one.
  const std::string text =
      R"({"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 9000, "input_length": 1024, "output_length": 1, "hash_ids": [3, 4]}
{"timestamp": 18000, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}
)";
  EXPECT_EQ((SmallReplay{.text = text, .system = "infinite"}.result().hit_tokens), 1023u);
  EXPECT_LT((SmallReplay{.text = text, .budget = 17'000, .concurrency = 1}.result().hit_tokens),
            1023u);
}

TEST(Replay, TimeIsQueueAndPrefill) {
  const ReplayResult result = SmallReplay{}.result();
  // The first prompt takes 1.1 s. The second waits for it from 0.5 s on, for the shared prefix
  // first, then computes 188 tokens; the third computes 401.
  EXPECT_NEAR(result.ttft.p50, 0.788, 1e-3);
  EXPECT_NEAR(result.virtual_seconds, 60 + 0.401 + 3.0, 1e-3);
}

TEST(Replay, AskedAgainItAnswersTheSame) {
  const SmallReplay run{.budget = 60'000, .shuffle = 7};
  const ReplayResult a = run.result();
  const ReplayResult b = run.result();
  EXPECT_EQ(a.hit_tokens, b.hit_tokens);
  EXPECT_EQ(a.virtual_seconds, b.virtual_seconds);
}

TEST(Replay, SubAgentsRunBesideTheirSession) {
  const ReplayResult result = SmallReplay{.text = test::kAgentCoding}.result();
  EXPECT_EQ(result.requests, 4u);
  // The second request has the first one's prompt and answer; the other session's prompt the shared
  // head.
  EXPECT_EQ(result.hit_tokens, 269u + 128u);
}

TEST(Replay, WhatCanNeverFitIsRefusedAndCounted) {
  const ReplayResult result = SmallReplay{.budget = 12'000, .concurrency = 1}.result();
  EXPECT_GT(result.refused, 0u);
  EXPECT_EQ(result.requests, 3u);
  EXPECT_EQ(result.prompt_tokens, 3400u);
}

TEST(ServiceProfile, HasANameOrTwoRates) {
  EXPECT_EQ(find_service_profile("gpu")->prefill, 80000);
  EXPECT_EQ(find_service_profile("500:20")->decode, 20);
  EXPECT_FALSE(find_service_profile("fast"));
  EXPECT_FALSE(find_service_profile("0:20"));
}

}  // namespace
}  // namespace stemma::replay
