// Every scheduler strategy works with every page size, chunk size and schedule, and under every
// eviction policy, bit for bit.
//
// The rows are combinations, and those that SGLang refuses are named by its reason: no_buffer with
// pages above one token
// ("only sequence-end state exists"), no_buffer with overlapped scheduling (here: other sequences
// compute in the same step in which one ends and leaves its state), extra buffers on a CPU,
// intervals and chunks that are no multiples of each other or of the page.

#include <gtest/gtest.h>

#include <string>

#include "support/branching_prompts.h"
#include "support/engine_harness.h"
#include "support/test_models.h"

namespace stemma::test {
namespace {

constexpr SchedulerStrategy kStrategies[] = {SchedulerStrategy::no_buffer,
                                             SchedulerStrategy::extra_buffer,
                                             SchedulerStrategy::extra_buffer_lazy};
constexpr int kTrunk = 150;
constexpr int kOutput = 6;

EngineConfig config_of(SchedulerStrategy strategy) {
  EngineConfig config;
  config.max_sequences = 8;
  config.context_length = 512;
  config.cache_bytes = std::size_t{64} << 20;
  config.strategy = strategy;
  return config;
}

const std::string& model_path() {
  static const std::string path = tiny_model("qwen35", "q8_0");
  return path;
}

// What was computed under any row; the plainest engine of all (one sequence, one thread, states
// only at the ends) comes first.
LogitsBook& book() {
  static LogitsBook all;
  return all;
}

std::vector<std::vector<Token>> prompts_of(const EngineHarness& harness) {
  return branching_prompts(kTrunk, {1, 37, 64, 100, 149}, 30,
                           static_cast<Token>(harness.model().info().vocabulary), 1);
}

// All prompts at once, then one after the other, each with its next turn.
void run(EngineHarness& harness, const std::vector<std::vector<Token>>& prompts) {
  std::vector<Pending> pending;
  for (const auto& prompt : prompts) pending.push_back(harness.start(greedy(prompt, kOutput)));
  for (Pending& p : pending) ASSERT_EQ(p.wait().result.reason, FinishReason::length);
  for (const auto& prompt : prompts) {
    const std::vector<Token> answer = harness.generate(prompt, 3).tokens;
    std::vector<Token> next = prompt;
    next.insert(next.end(), answer.begin(), answer.end());
    next.push_back(5);
    harness.generate(next, 1);
  }
}

void compute_the_reference() {
  EngineConfig config = config_of(SchedulerStrategy::no_buffer);
  config.max_sequences = 1;
  EngineHarness harness(model_path(), config, book(), 1);
  run(harness, prompts_of(harness));
}

void expect_no_complaints() {
  for (const std::string& complaint : book().complaints()) ADD_FAILURE() << complaint;
}

struct Row {
  SchedulerStrategy strategy;
  int page_size;
  int step_tokens;
  AdmissionPolicy admission;
};

std::string name_of_row(const ::testing::TestParamInfo<Row>& info) {
  const Row& row = info.param;
  return std::string(name_of(row.strategy)) + "_pages_of_" + std::to_string(row.page_size) +
         "_steps_of_" + std::to_string(row.step_tokens) +
         (row.admission == AdmissionPolicy::arrival ? "_fcfs" : "_lpm");
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const SchedulerStrategy strategy : kStrategies) {
    for (const int page_size : {1, 16, 64}) {
      for (const int step_tokens : {1, 37, 512}) {
        for (const AdmissionPolicy admission :
             {AdmissionPolicy::arrival, AdmissionPolicy::longest_prefix}) {
          rows.push_back({strategy, page_size, step_tokens, admission});
        }
      }
    }
  }
  return rows;
}

class StrategyRow : public ::testing::TestWithParam<Row> {
 protected:
  static void SetUpTestSuite() { compute_the_reference(); }
};

TEST_P(StrategyRow, WorksAndReusesWhatItsStrategyStores) {
  const Row& row = GetParam();
  EngineConfig config = config_of(row.strategy);
  config.page_size = row.page_size;
  config.step_tokens = row.step_tokens;
  config.mixed_prefill_tokens = std::max(1, row.step_tokens / 8);
  config.admission = row.admission;
  config.snapshot.generation_interval = 5;  // no multiple of pages or steps
  EngineHarness harness(model_path(), config, book());
  const auto prompts = prompts_of(harness);
  const std::size_t repeats = book().repeats();
  run(harness, prompts);
  expect_no_complaints();
  EXPECT_GT(book().repeats(), repeats) << "nothing was compared";

  // Under every strategy the next turn goes on where an output ended, in the middle of pages and
  // steps.
  const Answer answer = harness.generate(prompts[0], kOutput + 1);
  std::vector<Token> next = prompts[0];
  next.insert(next.end(), answer.tokens.begin(), answer.tokens.end());
  next.push_back(5);
  EXPECT_EQ(harness.generate(next, 1).result.cached_tokens, kTrunk + kOutput);
  // With marks, an exact repeat reuses all but its last token.
  if (row.strategy != SchedulerStrategy::no_buffer) {
    EXPECT_EQ(harness.generate(prompts[1], 1).result.cached_tokens,
              static_cast<int>(prompts[1].size()) - 1);
  }
  const EngineStats stats = harness.idle_stats();
  EXPECT_EQ(stats.cache.marks_taken > 0, row.strategy != SchedulerStrategy::no_buffer);
  EXPECT_EQ(stats.cache.pages.pinned + stats.cache.rows.pinned, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, StrategyRow, ::testing::ValuesIn(all_rows()), name_of_row);

struct Eviction {
  SchedulerStrategy strategy;
  std::string policy;
};

class StrategyAndPolicy : public ::testing::TestWithParam<Eviction> {
 protected:
  static void SetUpTestSuite() { compute_the_reference(); }
};

TEST_P(StrategyAndPolicy, AHitEqualsRecomputingWhileMemoryIsShort) {
  EngineConfig config = config_of(GetParam().strategy);
  config.context_length = 200;
  config.step_tokens = 64;
  config.eviction = GetParam().policy;
  EngineHarness probe(model_path(), config_of(GetParam().strategy), book());
  // Room for the longest sequence and a bit, and for few states: each prompt drives out others.
  EngineHarness harness(model_path(), with_room(config, probe.model(), 18, 6), book());
  const auto prompts = prompts_of(harness);
  for (int round = 0; round < 3; ++round) run(harness, prompts);
  expect_no_complaints();
  const EngineStats stats = harness.idle_stats();
  EXPECT_GT(stats.cache.evicted_pages, 0u);
  EXPECT_GT(stats.cache.evicted_checkpoints, 0u);
  EXPECT_GT(stats.cached_tokens, 0u);
  EXPECT_EQ(stats.cache.pages.pinned + stats.cache.rows.pinned, 0u);
}

std::vector<Eviction> all_evictions() {
  std::vector<Eviction> all;
  for (const SchedulerStrategy strategy : kStrategies) {
    for (const char* policy :
         {"value", "lru", "lfu", "slru", "priority", "marconi", "marconi:0.5", "seglen"}) {
      all.push_back({strategy, policy});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, StrategyAndPolicy, ::testing::ValuesIn(all_evictions()),
                         [](const auto& row) {
                           std::string name =
                               std::string(name_of(row.param.strategy)) + "_" + row.param.policy;
                           for (char& c : name) {
                             if (c == ':' || c == '.') c = '_';
                           }
                           return name;
                         });

// Pages and states share one budget: what a long prompt's KV takes, the states of many short ones
// get later, and back. A slot that lost its memory is wiped by the recording device, so one that is
// still used is reported.
class OneBudget : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { compute_the_reference(); }
};

TEST_P(OneBudget, MovesBetweenPagesAndStates) {
  constexpr int kLong = 1500;
  EngineConfig config = config_of(SchedulerStrategy::automatic);
  config.context_length = kLong + 100;
  config.cache_bytes = std::size_t{5} << 19;  // the KV of one context is most of it
  config.eviction = GetParam();
  EngineHarness harness(model_path(), config, book());
  const auto vocabulary = static_cast<Token>(harness.model().info().vocabulary);
  const auto long_prompt = branching_prompts(kLong, {}, 0, vocabulary, 7)[0];
  const auto used = [&](CacheStats::Pool CacheStats::*pool) {
    const CacheStats::Pool found = harness.idle_stats().cache.*pool;
    return found.capacity - found.free;
  };
  ASSERT_EQ(harness.idle_stats().cache.budget_bytes, config.cache_bytes);
  for (int round = 0; round < 2; ++round) {
    harness.generate(long_prompt, kOutput);
    const auto pages = used(&CacheStats::pages);
    const auto rows = used(&CacheStats::rows);
    EXPECT_GE(pages, static_cast<unsigned>(kLong / config.page_size));
    for (unsigned seed = 0; seed < 20; ++seed) {
      harness.generate(branching_prompts(40, {}, 0, vocabulary, seed)[0], kOutput);
    }
    run(harness, prompts_of(harness));
    EXPECT_LT(used(&CacheStats::pages), pages);
    EXPECT_GT(used(&CacheStats::rows), rows);
    expect_no_complaints();
  }
}

INSTANTIATE_TEST_SUITE_P(All, OneBudget, ::testing::Values("value", "lru", "priority"));

}  // namespace
}  // namespace stemma::test
