// Exactness, end to end: the same tokens give the same bits of logits, whatever the engine did to get there.
//
// Each model has one LogitsBook for all its engines: what one configuration computed, every other must repeat bit for bit. The
// reference is the plainest engine of all (one thread, one sequence, no snapshot but the end's, pages of 16).

#include <gtest/gtest.h>

#include <filesystem>

#include "support/branching_prompts.h"
#include "support/engine_harness.h"
#include "support/test_models.h"

namespace stemma::test {
namespace {

struct Case {
  std::string name;
  int step_tokens = 512;
  int threads = 2;
  int page_size = 16;
  int max_sequences = 8;
  DType kv = DType::f16;
};

EngineConfig config_of(const Case& c) {
  EngineConfig config;
  config.step_tokens = c.step_tokens;
  config.mixed_prefill_tokens = std::max(1, c.step_tokens / 8);
  config.max_sequences = c.max_sequences;
  config.context_length = 1024;
  config.k_type = config.v_type = c.kv;
  config.page_size = c.page_size;
  config.cache_bytes = std::size_t{256} << 20;
  return config;
}

const std::vector<int> kDepths = {1, 37, 64, 150, 255, 256, 299};

// All prompts at once, then one after the other, then at once again: cold, batched, decoded, and hits at every branch.
void run_rounds(EngineHarness& harness, const std::vector<std::vector<Token>>& prompts) {
  for (int round = 0; round < 2; ++round) {
    std::vector<Pending> pending;
    for (const auto& prompt : prompts) pending.push_back(harness.start(greedy(prompt, 6)));
    for (Pending& p : pending) ASSERT_EQ(p.wait().result.reason, FinishReason::length);
    for (const auto& prompt : prompts) harness.generate(prompt, 3);
  }
}

// A model file; with a name that tests can show.
struct TestModel {
  std::string architecture;
  std::string type;  // or "bundled"

  // Empty if there is no such file.
  std::string path() const {
    if (type != "bundled") return tiny_model(architecture, type);
    const std::string bundled = STEMMA_SOURCE_DIR "/models/stemma-tiny.gguf";
    return std::filesystem::exists(bundled) ? bundled : std::string();
  }
};

void PrintTo(const TestModel& model, std::ostream* out) { *out << model.architecture << " " << model.type; }

class ExactTest : public ::testing::TestWithParam<TestModel> {};

TEST_P(ExactTest, WhateverTheEngineDoesTheBitsAreTheSame) {
  const std::string path = GetParam().path();
  if (path.empty()) GTEST_SKIP() << "models/stemma-tiny.gguf is not there";
  const std::vector<Case> cases = {
      {.name = "reference", .threads = 1, .max_sequences = 1},
      {.name = "batch"},
      {.name = "chunks of 1", .step_tokens = 1},
      {.name = "chunks of 37", .step_tokens = 37},
      {.name = "one thread", .threads = 1},
      {.name = "three threads", .step_tokens = 100, .threads = 3},
      {.name = "pages of 1", .page_size = 1},
      {.name = "pages of 64", .step_tokens = 37, .page_size = 64},
      {.name = "pages of 7", .step_tokens = 64, .page_size = 7},
  };
  LogitsBook book;
  std::vector<std::vector<Token>> prompts;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EngineHarness harness(path, config_of(c), book, c.threads);
    prompts = branching_prompts(300, kDepths, 30, static_cast<Token>(harness.model().info().vocabulary), 1);
    run_rounds(harness, prompts);
    ASSERT_TRUE(book.complaints().empty()) << book.complaints().front();
    const EngineStats stats = harness.idle_stats();
    EXPECT_EQ(stats.cache.pages.pinned, 0u);
    EXPECT_EQ(stats.cache.rows.pinned, 0u);
    EXPECT_GT(stats.cached_tokens, stats.prompt_tokens / 2);
  }
  {
    SCOPED_TRACE("evicted and computed again");
    EngineHarness probe(path, config_of(cases[0]), book);
    EngineConfig config = config_of(cases[1]);
    config.context_length = 400;
    EngineHarness harness(path, with_room(config, probe.model(), 30, 10), book);
    run_rounds(harness, prompts);
    const CacheStats cache = harness.idle_stats().cache;
    EXPECT_GT(cache.evicted_pages, 0u);
    if (cache.rows.capacity > 0) {
      EXPECT_GT(cache.evicted_checkpoints, 0u);
    }
    harness.engine().flush_cache();
    run_rounds(harness, prompts);
  }
  {
    SCOPED_TRACE("preempted");
    EngineHarness probe(path, config_of(cases[0]), book);
    EngineConfig config = config_of(cases[1]);
    config.context_length = 400;
    EngineHarness harness(path, with_room(config, probe.model(), 28, 10), book);
    // There is room for one of them at its end, not for two.
    constexpr int kOutput = 300;
    std::vector<Pending> pending;
    for (int i = 0; i < 4; ++i) {
      pending.push_back(harness.start(greedy({prompts[1].begin(), prompts[1].end() - i}, kOutput)));
    }
    for (Pending& p : pending) EXPECT_EQ(p.wait().tokens.size(), std::size_t{kOutput});
    EXPECT_GT(harness.idle_stats().preemptions, 0u);
    EngineHarness roomy(path, config_of(cases[0]), book);
    for (int i = 0; i < 4; ++i) roomy.generate({prompts[1].begin(), prompts[1].end() - i}, kOutput);
  }
  for (const std::string& complaint : book.complaints()) ADD_FAILURE() << complaint;
  EXPECT_GT(book.repeats(), 1000u) << "too little was computed twice to prove anything";
}

INSTANTIATE_TEST_SUITE_P(Models, ExactTest, ::testing::Values(TestModel{"qwen35", "f32"}, TestModel{"qwen35", "f16"},
                                           TestModel{"qwen35", "q8_0"}, TestModel{"qwen35", "q4_k"},
                                           TestModel{"llama", "q8_0"}, TestModel{"qwen3", "q4_k"},
                                           TestModel{"qwen35", "bundled"}),
                         [](const auto& info) { return info.param.architecture + "_" + info.param.type; });

}  // namespace
}  // namespace stemma::test
