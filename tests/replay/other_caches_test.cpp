// What the models of other caches reuse, against what the cache itself does with the same requests:
// a prompt of 1,100 tokens and an answer of 100; a prompt that shares its first 512 tokens; and the
// next turn of the first.

#include <gmock/gmock.h>

#include "replay/sweep.h"
#include "small_traces.h"

namespace stemma::replay {
namespace {

// A state weighs as much as 100 tokens of KV.
const ModelCosts kModel{"small", 1, 1, {1000, 500, 300}, 10, 1e6, 1e6, 8, "made up"};

SweepResult swept(double budget) {
  SweepConfig config;
  config.budgets = {budget};
  config.systems = {"lru", "llama-server", "vllm", "sglang"};
  config.load.profile = {"test", 1000, 10};
  config.load.concurrency = 1;  // one after another
  config.load.chunk_tokens = 256;
  config.load.unit_tokens = 1;
  return run_sweep(test::read(test::kMooncake).value(), kModel, config, {}).value();
}

std::uint64_t hits(const SweepResult& result, const std::string& system) {
  for (const SystemResult& each : result.budgets[0].systems) {
    if (each.system == system) return each.orders[0].hit_tokens;
  }
  ADD_FAILURE() << system;
  return 0;
}

TEST(OtherCaches, TheCacheItselfResumesAtEveryToken) {
  EXPECT_EQ(hits(swept(1e6), "lru"), 512u + 1199u);
}

TEST(OtherCaches, LlamaServersOneSlotGoesToWhoeverComesNext) {
  // The second prompt takes the slot, and none of its state is usable where the prompts part.
  EXPECT_EQ(hits(swept(1e6), "llama-server"), 0u);
}

TEST(OtherCaches, VllmReusesWholeBlocksOfOneStatesWeight) {
  EXPECT_EQ(hits(swept(1e6), "vllm"), 500u + 1100u);
}

TEST(OtherCaches, SglangReusesChunkEndsOnItsGridAndLosesTheTail) {
  // 512 is the end of a chunk; of 1,100 tokens 1,088 are on the grid of 64, and the answer's 99
  // reach no multiple of 256.
  EXPECT_EQ(hits(swept(1e6), "sglang"), 512u + 1088u);
}

TEST(OtherCaches, EveryOneServesEveryRequestWhateverTheRoom) {
  for (const double budget : {30'000.0, 40'000.0, 60'000.0}) {
    const SweepResult result = swept(budget);
    for (const SystemResult& system : result.budgets[0].systems) {
      EXPECT_EQ(system.orders[0].requests, 3u) << system.system;
      EXPECT_GT(system.orders[0].ttft.p50, 0) << system.system;
      EXPECT_LE(system.orders[0].hit_tokens, result.infinite.orders[0].hit_tokens) << system.system;
    }
  }
}

}  // namespace
}  // namespace stemma::replay
