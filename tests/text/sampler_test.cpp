#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/logits.h"
#include "vocabularies.h"

namespace stemma {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { tokenizer_ = load_tokenizer("llama-spm"); }
  static void TearDownTestSuite() { tokenizer_.reset(); }

  static std::unique_ptr<Sampler> make(const SamplingParams& params) {
    auto sampler = Sampler::create(params, *tokenizer_);
    if (!sampler) throw std::runtime_error(sampler.error().to_string());
    return std::move(*sampler);
  }

  // All tokens at -infinity except the given ones.
  static std::vector<float> logits(const std::map<Token, float>& values) {
    std::vector<float> result(tokenizer_->size(), -kInfinity);
    for (const auto& [token, value] : values) result[static_cast<std::size_t>(token)] = value;
    return result;
  }

  static std::vector<float> random_logits(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> result(tokenizer_->size());
    for (float& value : result) value = normal(random);
    return result;
  }

  static SamplingParams greedy() {
    SamplingParams params;
    params.temperature = 0;
    return params;
  }

  static std::map<Token, int> draw(const SamplingParams& params, const std::vector<float>& row, int count) {
    const auto sampler = make(params);
    std::map<Token, int> counts;
    for (int i = 0; i < count; ++i) ++counts[sampler->sample(row).token];
    return counts;
  }

  static std::unique_ptr<Tokenizer> tokenizer_;
};
std::unique_ptr<Tokenizer> SamplerTest::tokenizer_;

TEST_F(SamplerTest, GreedyTakesTheLargestAndTheLowestAmongEquals) {
  EXPECT_EQ(make(greedy())->sample(logits({{7, 1}, {9, 3}, {12, 2}})).token, 9);
  EXPECT_EQ(make(greedy())->sample(logits({{31999, 3}, {20, 3}, {9, 1}})).token, 20);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<float> row = random_logits(seed);
    EXPECT_EQ(make(greedy())->sample(row).token, std::max_element(row.begin(), row.end()) - row.begin());
  }
}

TEST_F(SamplerTest, NansAreNeverChosen) {
  std::vector<float> row = random_logits(1);
  for (std::size_t i = 0; i < row.size(); i += 2) row[i] = kNan;
  SamplingParams params;
  for (const float temperature : {0.0f, 1.0f, 50.0f}) {
    params.temperature = temperature;
    for (const auto& [token, count] : draw(params, row, 200)) EXPECT_EQ(token % 2, 1);
  }
  const std::vector<float> nothing(row.size(), kNan);
  EXPECT_EQ(make(greedy())->sample(nothing).token, 0);
  EXPECT_EQ(make(SamplingParams())->sample(nothing).token, 0);
  EXPECT_EQ(make(SamplingParams())->sample(std::vector<float>(row.size(), -kInfinity)).token, 0);
  EXPECT_EQ(make(SamplingParams())->sample(logits({{5, kInfinity}, {3, 1}, {8, kInfinity}})).token, 5);
}

TEST_F(SamplerTest, SameSeedSameTokensOtherSeedOthers) {
  SamplingParams params;
  const auto run = [&](std::uint64_t seed) {
    params.seed = seed;
    const auto sampler = make(params);
    std::vector<Token> tokens;
    for (unsigned i = 0; i < 50; ++i) tokens.push_back(sampler->sample(random_logits(i)).token);
    return tokens;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
  EXPECT_NE(run(5), run(5 + (std::uint64_t{1} << 32)));  // all 64 bits count
  // libllama takes this seed for "a random one".
  EXPECT_EQ(run(0xffffffff), run(0xffffffff));
}

// Draws follow softmax(logits / temperature): chi-square over nine tokens, 8 degrees of freedom; 26.1 is the 0.1 % bound,
// and the seed is fixed.
TEST_F(SamplerTest, DrawsFollowTheDistribution) {
  std::map<Token, float> values;
  for (Token token = 100; token < 109; ++token) values[token] = 0.4f * static_cast<float>(token - 100);
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = 11;
    constexpr int draws = 5000;
    const std::map<Token, int> counts = draw(params, logits(values), draws);
    double sum = 0, chi_square = 0;
    for (const auto& [token, value] : values) sum += std::exp(value / temperature);
    for (const auto& [token, value] : values) {
      const double expected = draws * std::exp(value / temperature) / sum;
      const double seen = counts.contains(token) ? counts.at(token) : 0;
      chi_square += (seen - expected) * (seen - expected) / expected;
    }
    EXPECT_LT(chi_square, 26.1) << temperature;
    EXPECT_EQ(counts.size(), values.size());
  }
}

TEST_F(SamplerTest, TopKTopPMinPKeepTheirTokens) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  const std::vector<float> row =
      logits({{10, std::log(0.5f)}, {11, std::log(0.3f)}, {12, std::log(0.15f)}, {13, std::log(0.05f)}});
  const auto kept = [&](const std::function<void(SamplingParams&)>& set) {
    SamplingParams params;
    set(params);
    std::vector<Token> tokens;
    for (const auto& [token, count] : draw(params, row, 1000)) tokens.push_back(token);
    return tokens;
  };
  using Tokens = std::vector<Token>;
  EXPECT_EQ(kept([](auto&) {}), (Tokens{10, 11, 12, 13}));
  EXPECT_EQ(kept([](auto& p) { p.top_k = 2; }), (Tokens{10, 11}));
  EXPECT_EQ(kept([](auto& p) { p.top_k = -1; }), (Tokens{10, 11, 12, 13}));
  EXPECT_EQ(kept([](auto& p) { p.top_p = 0.7f; }), (Tokens{10, 11}));
  EXPECT_EQ(kept([](auto& p) { p.top_p = 0; }), (Tokens{10}));
  EXPECT_EQ(kept([](auto& p) { p.min_p = 0.2f; }), (Tokens{10, 11, 12}));
  EXPECT_EQ(kept([](auto& p) { p.temperature = 1e-30f; }), (Tokens{10}));
  EXPECT_EQ(kept([](auto& p) { p.temperature = 1e-4f; }), (Tokens{10}));
}

TEST_F(SamplerTest, BiasAndBans) {
  SamplingParams params = greedy();
  params.logit_bias = {{7, 1.5f}, {7, 1.0f}, {9, -kInfinity}};
  EXPECT_EQ(make(params)->sample(logits({{7, 1}, {8, 3}, {9, 9}})).token, 7);
  params.temperature = 1;
  for (const auto& [token, count] : draw(params, logits({{7, 1}, {8, 3}, {9, 9}}), 300)) EXPECT_NE(token, 9);
}

TEST_F(SamplerTest, IgnoreEosBansEveryEndOfGenerationToken) {
  ASSERT_FALSE(tokenizer_->end_of_generation().empty());
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    std::vector<float> row = random_logits(4);
    for (const Token token : tokenizer_->end_of_generation()) row[static_cast<std::size_t>(token)] = 40;
    EXPECT_TRUE(tokenizer_->is_end_of_generation(make(params)->sample(row).token));
    params.ignore_eos = true;
    for (const auto& [token, count] : draw(params, row, 100)) EXPECT_FALSE(tokenizer_->is_end_of_generation(token));
  }
}

TEST_F(SamplerTest, PenaltiesCountTheWindow) {
  const std::vector<float> row = logits({{20, 4}, {21, 3}, {22, -1}, {23, -1.5f}});
  SamplingParams params = greedy();
  params.repeat_penalty = 2;  // 4 becomes 2, -1 becomes -2
  auto sampler = make(params);
  EXPECT_EQ(sampler->sample(row).token, 20);
  EXPECT_EQ(sampler->sample(row).token, 21);
  EXPECT_EQ(sampler->sample(row).token, 20);  // 2 against 1.5
  params.repeat_penalty = 1;
  params.presence_penalty = 2;
  EXPECT_EQ(make(params)->sample(row).token, 20);
  sampler = make(params);
  sampler->accept_prompt(std::vector<Token>{20, 20, 20});
  EXPECT_EQ(sampler->sample(row).token, 21);  // the prompt counts: 2 against 3
  params.presence_penalty = 0;
  params.frequency_penalty = 0.5f;  // 20 keeps up to two occurrences
  sampler = make(params);
  sampler->accept_prompt(std::vector<Token>{20, 20, 20});
  EXPECT_EQ(sampler->sample(row).token, 21);
  // A window of two forgets the third.
  params.repeat_last_n = 2;
  sampler = make(params);
  sampler->accept_prompt(std::vector<Token>{20, 20, 1, 1});
  EXPECT_EQ(sampler->sample(row).token, 20);
  params.repeat_last_n = -1;
  sampler = make(params);
  std::vector<Token> prompt(10'000, 1);
  std::fill(prompt.begin(), prompt.begin() + 3, 20);
  sampler->accept_prompt(prompt);
  EXPECT_EQ(sampler->sample(row).token, 21);
  params.repeat_last_n = 0;
  sampler = make(params);
  sampler->accept_prompt(prompt);
  EXPECT_EQ(sampler->sample(row).token, 20);
}

TEST_F(SamplerTest, LogprobsAreOfTheModelsOwnDistribution) {
  std::vector<float> row = random_logits(9);
  row[50] = row[60] = 30;  // equal: the lower token first
  row[70] = kNan;
  double sum = 0;
  for (const float value : row)
    if (!std::isnan(value)) sum += std::exp(static_cast<double>(value));
  SamplingParams params;
  params.temperature = 3;
  params.top_k = 40;
  params.logit_bias = {{80, 60}};
  params.logprobs = 5;
  const Sampled sampled = make(params)->sample(row);
  EXPECT_EQ(sampled.token, 80);
  EXPECT_NEAR(sampled.logprob, row[80] - std::log(sum), 1e-5);
  ASSERT_EQ(sampled.top.size(), 5u);
  EXPECT_EQ(sampled.top[0].token, 50);
  EXPECT_EQ(sampled.top[1].token, 60);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(sampled.top[i].logprob, row[static_cast<std::size_t>(sampled.top[i].token)] - std::log(sum), 1e-5);
    EXPECT_LE(sampled.top[i].logprob, sampled.top[i == 0 ? 0 : i - 1].logprob);
  }
  params.logprobs = 0;
  EXPECT_TRUE(make(params)->sample(row).top.empty());
  EXPECT_LT(make(params)->sample(row).logprob, 0);
  params.logprobs = static_cast<int>(tokenizer_->size());
  EXPECT_EQ(make(params)->sample(row).top.size(), row.size());
}

// Large and small logits do not overflow, and rows without a distribution have answers too.
TEST(Logits, LogSumExp) {
  EXPECT_NEAR(log_sum_exp(std::vector<float>{1e30f, 1e30f}), 1e30, 1e24);
  EXPECT_NEAR(log_sum_exp(std::vector<float>{-1e4f, -1e4f}), -1e4 + std::log(2.0), 1e-9);
  const std::vector<float> row = {1, kInfinity, kNan};
  EXPECT_EQ(logprob(row[0], log_sum_exp(row)), -kInfinity);
  EXPECT_EQ(logprob(row[1], log_sum_exp(row)), 0);
  EXPECT_EQ(logprob(row[2], log_sum_exp(row)), -kInfinity);
  EXPECT_EQ(logprob(kNan, log_sum_exp(std::vector<float>{kNan})), -kInfinity);
}

TEST(Logits, ArgmaxOfEveryLength) {
  std::mt19937 random(2);
  for (std::size_t length = 1; length < 70; ++length) {
    std::vector<float> row(length);
    for (float& value : row) value = static_cast<float>(random() % 7);
    EXPECT_EQ(argmax(row), std::max_element(row.begin(), row.end()) - row.begin());
  }
}

TEST_F(SamplerTest, ParametersOutOfRange) {
  const auto expect_bad = [](const std::string& name, const std::function<void(SamplingParams&)>& set) {
    SamplingParams params;
    set(params);
    const auto sampler = Sampler::create(params, *tokenizer_);
    ASSERT_FALSE(sampler) << name;
    EXPECT_EQ(sampler.error().code(), ErrorCode::sampling_bad_parameter);
    EXPECT_THAT(sampler.error().message(), HasSubstr(name));
  };
  for (const float value : {-0.1f, kInfinity, kNan}) expect_bad("temperature", [=](auto& p) { p.temperature = value; });
  expect_bad("top_k", [](auto& p) { p.top_k = -2; });
  for (const float value : {-0.1f, 1.1f, kNan}) {
    expect_bad("top_p", [=](auto& p) { p.top_p = value; });
    expect_bad("min_p", [=](auto& p) { p.min_p = value; });
  }
  for (const float value : {0.0f, -1.0f, kInfinity, kNan})
    expect_bad("repeat_penalty", [=](auto& p) { p.repeat_penalty = value; });
  for (const float value : {-2.1f, 2.1f, kNan}) {
    expect_bad("frequency_penalty", [=](auto& p) { p.frequency_penalty = value; });
    expect_bad("presence_penalty", [=](auto& p) { p.presence_penalty = value; });
  }
  expect_bad("repeat_last_n", [](auto& p) { p.repeat_last_n = -2; });
  expect_bad("logprobs", [](auto& p) { p.logprobs = -2; });
  expect_bad("logprobs", [](auto& p) { p.logprobs = static_cast<int>(tokenizer_->size()) + 1; });
  for (const float value : {kInfinity, kNan})
    expect_bad("logit_bias of token 3", [=](auto& p) { p.logit_bias = {{3, value}}; });
  for (const Token token : {Token{-1}, static_cast<Token>(tokenizer_->size())}) {
    SamplingParams params;
    params.logit_bias = {{token, 1}};
    const auto sampler = Sampler::create(params, *tokenizer_);
    ASSERT_FALSE(sampler);
    EXPECT_EQ(sampler.error().code(), ErrorCode::sampling_bad_token);
  }
}

}  // namespace
}  // namespace stemma
