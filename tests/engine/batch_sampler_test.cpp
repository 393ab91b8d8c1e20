// Tokens drawn in parallel are those drawn one after the other.

#include "engine/batch_sampler.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "models/gguf_file.h"
#include "support/test_models.h"
#include "text/tokenizer.h"

namespace stemma::test {
namespace {

constexpr std::size_t kSequences = 100;  // times the vocabulary: enough for several threads
constexpr std::size_t kBroken = 17;      // its logits are not numbers

class BatchSamplerTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(*GgufFile::open(small_vocabulary()).value()).value();

  // Every sequence has settings of its own: greedy, drawn, with penalties, with log-probabilities.
  std::vector<std::unique_ptr<Sampler>> samplers() const {
    std::vector<std::unique_ptr<Sampler>> all;
    for (std::size_t i = 0; i < kSequences; ++i) {
      SamplingParams params;
      params.temperature = static_cast<float>(i % 3) * 0.7f;
      params.top_k = static_cast<int>(i % 5) * 10;
      params.top_p = i % 4 == 0 ? 0.9f : 1.0f;
      params.repeat_penalty = i % 2 == 0 ? 1.2f : 1.0f;
      params.seed = i;
      params.logprobs = static_cast<int>(i % 7) - 1;
      all.push_back(Sampler::create(params, *tokenizer_).value());
    }
    return all;
  }

  // The draws of some steps.
  std::vector<std::vector<Draw>> draw(int threads, const std::vector<std::vector<float>>& logits) const {
    BatchSampler batch(threads);
    const auto all = samplers();
    std::vector<std::vector<Draw>> steps;
    for (int step = 0; step < 4; ++step) {
      std::vector<Draw>& draws = steps.emplace_back();
      for (std::size_t i = 0; i < kSequences; ++i) {
        draws.push_back({all[i].get(), logits[(i + static_cast<std::size_t>(step)) % kSequences]});
      }
      batch.draw(draws);
    }
    return steps;
  }
};

TEST_F(BatchSamplerTest, ThreadsChangeNothing) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<std::vector<float>> logits(kSequences, std::vector<float>(tokenizer_->size()));
  for (auto& row : logits)
    for (float& x : row) x = normal(random);
  logits[kBroken].assign(tokenizer_->size(), std::numeric_limits<float>::quiet_NaN());

  const auto alone = draw(1, logits);
  for (const int threads : {2, 3}) {
    const auto together = draw(threads, logits);
    for (std::size_t step = 0; step < alone.size(); ++step) {
      for (std::size_t i = 0; i < kSequences; ++i) {
        const auto& expected = alone[step][i].sampled;
        const auto& found = together[step][i].sampled;
        ASSERT_EQ(found.has_value(), expected.has_value());
        EXPECT_EQ(found.has_value(), (i + step) % kSequences != kBroken);
        if (!found) continue;
        EXPECT_EQ(found->token, expected->token);
        EXPECT_EQ(found->logprob, expected->logprob);
        ASSERT_EQ(found->top.size(), expected->top.size());
        for (std::size_t k = 0; k < found->top.size(); ++k) EXPECT_EQ(found->top[k].token, expected->top[k].token);
      }
    }
  }
}

}  // namespace
}  // namespace stemma::test
