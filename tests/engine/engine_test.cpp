// What the engine promises to those who submit requests.

#include "engine/engine.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>

#include "compute/cpu/cpu_device.h"
#include "support/branching_prompts.h"
#include "support/engine_harness.h"
#include "support/test_models.h"

namespace stemma::test {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  EngineHarness& start(EngineConfig config = {}) {
    if (config.context_length == 0) config.context_length = 2048;
    config.cache_bytes = std::size_t{512} << 20;
    harness_ = std::make_unique<EngineHarness>(tiny_model("qwen35", "q8_0"), config, book_);
    return *harness_;
  }

  std::vector<Token> random_prompt(int length, unsigned seed) {
    return branching_prompts(length, {}, 0, static_cast<Token>(harness_->model().info().vocabulary), seed)[0];
  }

  void TearDown() override {
    for (const std::string& complaint : book_.complaints()) ADD_FAILURE() << complaint;
    if (!harness_) return;
    const CacheStats cache = harness_->idle_stats().cache;
    EXPECT_EQ(cache.leases, 0u);
    EXPECT_EQ(cache.pages.pinned + cache.rows.pinned, 0u);
  }

  LogitsBook book_;
  std::unique_ptr<EngineHarness> harness_;
};

TEST_F(EngineTest, TheSamePromptTwiceReusesAllButItsLastToken) {
  EngineHarness& harness = start();
  const auto prompt = random_prompt(777, 1);
  const Answer first = harness.generate(prompt, 8);
  const Answer second = harness.generate(prompt, 8);
  EXPECT_EQ(first.result.cached_tokens, 0);
  EXPECT_EQ(second.result.cached_tokens, 776);
  EXPECT_EQ(second.tokens, first.tokens);
}

// A prompt that shares k tokens with earlier ones has k cached from its third visitor on, whatever k is.
TEST_F(EngineTest, TheThirdVisitorOfABranchReusesAllOfIt) {
  EngineHarness& harness = start();
  for (const int k : {1, 2, 15, 16, 17, 63, 100, 129, 255, 300, 511}) {
    const auto prompts = branching_prompts(600, {k, k, k}, 40,
                                           static_cast<Token>(harness.model().info().vocabulary),
                                           static_cast<unsigned>(k));
    harness.generate(prompts[0], 1);
    harness.generate(prompts[1], 1);
    EXPECT_EQ(harness.generate(prompts[2], 1).result.cached_tokens, k);
    EXPECT_EQ(harness.generate(prompts[3], 1).result.cached_tokens, k);
  }
}

TEST_F(EngineTest, TheNextTurnReusesPromptAndOutput) {
  EngineHarness& harness = start();
  auto conversation = random_prompt(200, 3);
  const Answer answer = harness.generate(conversation, 50);
  conversation.insert(conversation.end(), answer.tokens.begin(), answer.tokens.end());
  conversation.push_back(5);
  // All but the last generated token, which nothing has consumed yet.
  EXPECT_EQ(harness.generate(conversation, 1).result.cached_tokens, 249);
}

TEST_F(EngineTest, MessageEndsAreResumedFromAtTheFirstRepeat) {
  EngineHarness& harness = start();
  const auto prompts = branching_prompts(400, {133}, 100, static_cast<Token>(harness.model().info().vocabulary), 4);
  GenerationRequest request = greedy(prompts[0], 1);
  request.message_ends = {133, 300};
  harness.start(std::move(request)).wait();
  EXPECT_EQ(harness.generate(prompts[1], 1).result.cached_tokens, 133);
}

TEST_F(EngineTest, PromptsThatShareAPrefixInFlightComputeItOnce) {
  EngineHarness& harness = start();
  const auto prompts = branching_prompts(1000, {1000, 1000, 1000, 1000}, 5,
                                         static_cast<Token>(harness.model().info().vocabulary), 5);
  std::vector<Pending> pending;
  for (const auto& prompt : prompts) pending.push_back(harness.start(greedy(prompt, 2)));
  for (Pending& p : pending) p.wait();
  EXPECT_LT(harness.idle_stats().computed_prompt_tokens, 1100u);
}

TEST_F(EngineTest, SaltsNeverShare) {
  EngineHarness& harness = start();
  GenerationRequest request = greedy(random_prompt(100, 6), 1);
  request.cache_salt = "a";
  EXPECT_EQ(harness.start(request).wait().result.cached_tokens, 0);
  EXPECT_EQ(harness.start(request).wait().result.cached_tokens, 99);
  request.cache_salt = "b";
  EXPECT_EQ(harness.start(request).wait().result.cached_tokens, 0);
}

// The engine's explanation of a prompt.
Explanation explain(Engine& engine, GenerationRequest request) {
  std::promise<Explanation> promise;
  const Status asked = engine.explain(std::move(request), [&](Result<Explanation> explanation) {
    promise.set_value(explanation.value());
  });
  EXPECT_TRUE(asked);
  return promise.get_future().get();
}

TEST_F(EngineTest, AnExplanationIsWhatTheRequestWillFindAndComputesNothing) {
  EngineHarness& harness = start();
  const auto prompts =
      branching_prompts(400, {133}, 50, static_cast<Token>(harness.model().info().vocabulary), 12);
  harness.generate(prompts[0], 1);
  const std::uint64_t steps = harness.idle_stats().steps;
  const Explanation explained = explain(harness.engine(), greedy(prompts[1], 1));
  const EngineStats stats = harness.idle_stats();
  EXPECT_EQ(stats.steps, steps);
  EXPECT_EQ(stats.cache.lookups, 1u);
  EXPECT_EQ(explained.length, 183);
  EXPECT_EQ(explained.lookup.matched, 133);

  const GenerationResult result = harness.generate(prompts[1], 1).result;
  EXPECT_EQ(result.lookup.matched, explained.lookup.matched);
  EXPECT_EQ(result.cached_tokens, explained.lookup.usable);
  EXPECT_EQ(result.lookup.limit, explained.lookup.limit);
  std::vector<Depth> planned;
  for (const PlannedMark& mark : explained.planned) planned.push_back(mark.depth);
  EXPECT_EQ(result.checkpoints, planned);

  const Explanation salted = [&] {
    GenerationRequest request = greedy(prompts[1], 1);
    request.cache_salt = "other";
    return explain(harness.engine(), std::move(request));
  }();
  EXPECT_EQ(salted.lookup.matched, 0);
  EXPECT_EQ(salted.lookup.limit, ReuseLimit::other_namespace);
  EXPECT_EQ(salted.other_namespace_matched, 183);
}

TEST_F(EngineTest, ExplanationsAreGivenWhileRequestsRun) {
  EngineHarness& harness = start({.step_tokens = 1});
  const auto prompt = random_prompt(1500, 13);
  Pending pending = harness.start(greedy(prompt, 1));
  // The first may be answered before the request is admitted, the next ones between its 1,500 steps.
  Depth in_flight = 0;
  for (int i = 0; i < 1000 && in_flight == 0; ++i) {
    in_flight = explain(harness.engine(), greedy(prompt, 1)).in_flight;
  }
  EXPECT_EQ(in_flight, 1500);
  harness.engine().cancel(pending.id());
  pending.wait();
}

TEST_F(EngineTest, ExplainRefusesWhatSubmitRefuses) {
  EngineHarness& harness = start({.context_length = 64});
  const auto outcome =
      harness.engine().explain(greedy({}, 1), [](const Result<Explanation>&) { FAIL(); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ErrorCode::request_prompt_empty);
}

TEST_F(EngineTest, WhatAnAdmissionWaitedForIsTold) {
  EngineHarness& harness = start({.step_tokens = 4});
  const auto prompt = random_prompt(600, 14);
  Pending first = harness.start(greedy(prompt, 1));
  Pending second = harness.start(greedy(prompt, 1));
  const auto in_flight = static_cast<std::size_t>(WaitReason::prefix_in_flight);
  EXPECT_FALSE(first.wait().result.waited[in_flight]);
  const GenerationResult result = second.wait().result;
  EXPECT_TRUE(result.waited[in_flight]);
  EXPECT_EQ(result.cached_tokens, 599);
}

TEST_F(EngineTest, StopsAtTheContextsEnd) {
  EngineHarness& harness = start({.context_length = 128});
  const Answer answer = harness.generate(random_prompt(100, 7), 1000);
  EXPECT_EQ(answer.result.reason, FinishReason::length);
  EXPECT_EQ(answer.tokens.size(), 28u);
}

TEST_F(EngineTest, WithNoTokensToGenerateItOnlyFillsTheCache) {
  EngineHarness& harness = start();
  const auto prompt = random_prompt(100, 8);
  const Answer answer = harness.generate(prompt, 0);
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_EQ(answer.result.reason, FinishReason::length);
  EXPECT_EQ(harness.generate(prompt, 1).result.cached_tokens, 99);
}

TEST_F(EngineTest, CancelledAtAnyPointGivesEverythingBack) {
  EngineHarness& harness = start({.step_tokens = 16});
  std::vector<Pending> pending;
  for (unsigned i = 0; i < 12; ++i) pending.push_back(harness.start(greedy(random_prompt(50 + 20 * static_cast<int>(i), i), 1000)));
  for (std::size_t i = 0; i < pending.size(); ++i) {
    harness.engine().cancel(pending[i].id());
    EXPECT_EQ(pending[i].wait().result.reason, FinishReason::cancelled);
  }
  harness.engine().cancel(pending[0].id());  // finished ids are ignored
  EXPECT_EQ(harness.idle_stats().requests_cancelled, 12u);
}

TEST_F(EngineTest, EndingTheEngineCancelsWhatIsLeft) {
  EngineHarness& harness = start();
  Pending pending = harness.start(greedy(random_prompt(1000, 9), 1000));
  harness_.reset();
  EXPECT_EQ(pending.wait().result.reason, FinishReason::cancelled);
}

TEST_F(EngineTest, FlushDropsTheCache) {
  EngineHarness& harness = start();
  const auto prompt = random_prompt(100, 10);
  harness.generate(prompt, 1);
  harness.engine().flush_cache();
  EXPECT_EQ(harness.generate(prompt, 1).result.cached_tokens, 0);
}

TEST_F(EngineTest, SampledAnswersFollowTheSeedAlone) {
  EngineHarness& harness = start();
  GenerationRequest request = greedy(random_prompt(60, 11), 24);
  request.sampling.temperature = 1;
  request.sampling.seed = 42;
  const auto first = harness.start(request).wait().tokens;
  EXPECT_EQ(harness.start(request).wait().tokens, first);
  request.sampling.seed = 43;
  EXPECT_NE(harness.start(request).wait().tokens, first);
}

TEST_F(EngineTest, RefusesWhatItCannotRun) {
  EngineHarness& harness = start({.max_waiting = 1, .context_length = 64});
  const auto code = [&](GenerationRequest request) {
    const auto outcome = harness.engine().submit(std::move(request), nullptr);
    return outcome ? std::nullopt : std::optional(outcome.error().code());
  };
  EXPECT_EQ(code(greedy({}, 1)), ErrorCode::request_prompt_empty);
  EXPECT_EQ(code(greedy(random_prompt(64, 1), 1)), ErrorCode::request_prompt_too_long);
  EXPECT_EQ(code(greedy({-1}, 1)), ErrorCode::request_token_out_of_range);
  EXPECT_EQ(code(greedy({static_cast<Token>(harness.model().info().vocabulary)}, 1)),
            ErrorCode::request_token_out_of_range);
  GenerationRequest hot = greedy({1}, 1);
  hot.sampling.temperature = -1;
  EXPECT_EQ(code(hot), ErrorCode::sampling_bad_parameter);
}

TEST_F(EngineTest, RefusesPromptsAboveItsLimit) {
  EngineHarness& harness = start({.max_prompt_tokens = 10});
  EXPECT_EQ(harness.generate(random_prompt(10, 1), 1).tokens.size(), 1u);
  const auto outcome = harness.engine().submit(greedy(random_prompt(11, 1), 1), nullptr);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), ErrorCode::request_prompt_too_long);
}

TEST(EngineCreate, RefusesSettingsThatCannotRun) {
  LogitsBook book;
  EngineHarness harness(tiny_model("qwen35", "q8_0"), {.context_length = 64}, book);
  const auto device = make_cpu_device({.threads = 1});
  const auto create = [&](EngineConfig config) {
    const auto engine = Engine::create(config, harness.model(), *device, harness.tokenizer());
    return engine ? std::nullopt : std::optional(engine.error().code());
  };
  EXPECT_EQ(create({.step_tokens = 0}), ErrorCode::engine_bad_config);
  EXPECT_EQ(create({.context_length = -1}), ErrorCode::engine_bad_config);
  EXPECT_EQ(create({.context_length = 2048, .cache_bytes = 1000}), ErrorCode::memory_budget_too_small);
  EXPECT_EQ(create({.eviction = "fifo"}), ErrorCode::cache_unknown_policy);
}

}  // namespace
}  // namespace stemma::test
