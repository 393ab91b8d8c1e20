// The scheduler's rules, one by one, over a real cache and without a model.

#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace stemma {
namespace {

using ::testing::ElementsAre;

TEST(SharePrefillBudget, GivesALonePromptEverything) {
  EXPECT_THAT(share_prefill_budget({1000}, 512), ElementsAre(512));
  EXPECT_THAT(share_prefill_budget({100}, 512), ElementsAre(100));
}

TEST(SharePrefillBudget, GivesTheOldestHalfAndTheShortestTheRest) {
  EXPECT_THAT(share_prefill_budget({10000, 5000, 20}, 100), ElementsAre(50, 30, 20));
}

TEST(SharePrefillBudget, GivesTheOldestWhatTheOthersLeave) {
  EXPECT_THAT(share_prefill_budget({10000, 10}, 100), ElementsAre(90, 10));
}

TEST(SharePrefillBudget, AlwaysMovesTheOldest) {
  EXPECT_THAT(share_prefill_budget({10, 10}, 1), ElementsAre(1, 0));
}

class SchedulerTest : public ::testing::Test {
 protected:
  void make(SchedulerConfig config, std::uint32_t pages, std::uint32_t rows = 16, int page_size = 4) {
    cache_ = Cache::create({.page_size = page_size, .page_count = pages, .row_count = rows}).value();
    scheduler_ = std::make_unique<Scheduler>(config, *cache_);
  }

  Sequence& enqueue(std::uint64_t id, std::vector<Token> tokens) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = RequestId{id};
    sequence->ns = cache_->namespace_for("model");
    sequence->tokens = std::move(tokens);
    sequence->max_tokens = 100;
    Sequence& reference = *sequence;
    scheduler_->enqueue(std::move(sequence));
    return reference;
  }

  static std::vector<Token> prompt(Token first, int length) {
    std::vector<Token> tokens(static_cast<std::size_t>(length));
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }

  // What the engine does with a plan, without computing: publish, and append a token where one is due.
  void carry_out(const std::vector<Chunk>& chunks) {
    for (const Chunk& chunk : chunks) {
      chunk.sequence->lease->prepare_marks(chunk.to);
      chunk.sequence->lease->publish(chunk.to);
      if (chunk.sequence->remaining() == 0) chunk.sequence->lease->append(next_token_++);
    }
  }

  std::vector<std::uint64_t> ids(const std::vector<std::unique_ptr<Sequence>>& list) {
    std::vector<std::uint64_t> result;
    for (const auto& sequence : list) result.push_back(index_of(sequence->id));
    return result;
  }

  void admit() {
    for (Sequence* sequence : scheduler_->admit()) sequence->lease->restored();
  }

  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  Token next_token_ = 100000;
};

constexpr SchedulerConfig kConfig{.step_tokens = 64,
                                  .mixed_prefill_tokens = 16,
                                  .max_sequences = 8,
                                  .admission = AdmissionPolicy::arrival};

TEST_F(SchedulerTest, CutsAPromptIntoChunksOfTheBudget) {
  make(kConfig, 100);
  Sequence& s = enqueue(1, prompt(0, 150));
  admit();
  for (const Depth to : {64, 128, 150}) {
    const auto chunks = scheduler_->plan();
    ASSERT_EQ(chunks.size(), 1u);
    EXPECT_EQ(chunks[0].to, to);
    carry_out(chunks);
  }
  EXPECT_TRUE(s.decoding());
}

TEST_F(SchedulerTest, BoundsPromptsWhileOthersGenerate) {
  make(kConfig, 100);
  enqueue(1, prompt(0, 10));
  admit();
  carry_out(scheduler_->plan());
  enqueue(2, prompt(1000, 100));
  admit();
  const auto chunks = scheduler_->plan();
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].to, 11);
  EXPECT_EQ(chunks[1].to, 16);
}

TEST_F(SchedulerTest, GivesGeneratingSequencesTheirTurnWhenTheBudgetIsSmallerThanTheirNumber) {
  make({.step_tokens = 2, .mixed_prefill_tokens = 1, .max_sequences = 8, .admission = AdmissionPolicy::arrival}, 100);
  for (std::uint64_t id = 1; id <= 5; ++id) enqueue(id, prompt(static_cast<Token>(id * 1000), 1));
  admit();
  std::vector<Depth> computed;
  for (int step = 0; step < 50; ++step) carry_out(scheduler_->plan());
  for (const auto& sequence : scheduler_->running()) computed.push_back(sequence->lease->computed());
  EXPECT_THAT(computed, ::testing::Each(::testing::AllOf(::testing::Ge(19), ::testing::Le(21))));
}

TEST_F(SchedulerTest, NeverRunsMoreThanItsMaximum) {
  make({.step_tokens = 64, .mixed_prefill_tokens = 16, .max_sequences = 2, .admission = AdmissionPolicy::arrival}, 100);
  for (std::uint64_t id = 1; id <= 3; ++id) enqueue(id, prompt(static_cast<Token>(id * 1000), 5));
  admit();
  EXPECT_THAT(ids(scheduler_->running()), ElementsAre(1, 2));
  scheduler_->remove(RequestId{1});
  admit();
  EXPECT_THAT(ids(scheduler_->running()), ElementsAre(2, 3));
}

TEST_F(SchedulerTest, ArrivalOrderLetsNobodyPassOneThatDoesNotFit) {
  make(kConfig, 20);  // 80 tokens
  enqueue(1, prompt(0, 40));
  admit();
  enqueue(2, prompt(1000, 60));
  enqueue(3, prompt(2000, 4));
  admit();
  EXPECT_THAT(ids(scheduler_->running()), ElementsAre(1));
  EXPECT_THAT(ids(scheduler_->waiting()), ElementsAre(2, 3));
}

TEST_F(SchedulerTest, APromptWhosePrefixIsBeingComputedWaitsAndLetsOthersPass) {
  make(kConfig, 200);
  const auto shared = prompt(0, 100);
  enqueue(1, shared);
  admit();
  carry_out(scheduler_->plan());  // 64 of 100
  auto longer = shared;
  longer.push_back(7777);
  enqueue(2, longer);
  enqueue(3, prompt(5000, 4));
  admit();
  EXPECT_THAT(ids(scheduler_->running()), ElementsAre(1, 3));
  while (scheduler_->running()[0]->remaining() > 1 || !scheduler_->running()[0]->decoding()) {
    carry_out(scheduler_->plan());
  }
  admit();
  EXPECT_THAT(ids(scheduler_->running()), ElementsAre(1, 2, 3));
  EXPECT_GE(scheduler_->running()[1]->lease->hit(), 99);
}

TEST_F(SchedulerTest, LongestPrefixFirstPrefersWhatTheCacheHas) {
  make({.step_tokens = 64, .mixed_prefill_tokens = 16, .max_sequences = 1,
        .admission = AdmissionPolicy::longest_prefix},
       200);
  const auto known = prompt(0, 30);
  enqueue(1, known);
  admit();
  carry_out(scheduler_->plan());
  auto first = scheduler_->remove(RequestId{1});
  std::move(*first->lease).finish();
  enqueue(2, prompt(5000, 30));
  enqueue(3, known);
  admit();
  EXPECT_THAT(ids(scheduler_->running()), ElementsAre(3));
}

TEST_F(SchedulerTest, PreemptsTheYoungestWhenPagesRunOutAndKeepsWhatItComputed) {
  make(kConfig, 8);  // 32 tokens
  enqueue(1, prompt(0, 14));
  enqueue(2, prompt(1000, 14));
  admit();
  while (scheduler_->preemptions() == 0) carry_out(scheduler_->plan());
  EXPECT_THAT(ids(scheduler_->running()), ElementsAre(1));
  EXPECT_THAT(ids(scheduler_->waiting()), ElementsAre(2));
  EXPECT_GE(scheduler_->waiting()[0]->tokens.size(), 15u);
  EXPECT_EQ(cache_->verify(), std::nullopt);
}

TEST_F(SchedulerTest, RemovingASequenceGivesEverythingBack) {
  make(kConfig, 20);
  enqueue(1, prompt(0, 40));
  enqueue(2, prompt(1000, 10));
  admit();
  carry_out(scheduler_->plan());
  scheduler_->remove(RequestId{1});
  scheduler_->remove(RequestId{2});
  EXPECT_EQ(scheduler_->remove(RequestId{1}), nullptr);
  const CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.pages.pinned, 0u);
  EXPECT_EQ(stats.rows.pinned, 0u);
  EXPECT_EQ(stats.leases, 0u);
}

}  // namespace
}  // namespace stemma
