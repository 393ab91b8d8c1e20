// A model of which one token's embedding is not a number: requests with that token fail, and all others, beside them and after
// them, get the same bits as ever.

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "models/gguf_file.h"
#include "support/engine_harness.h"
#include "support/gguf_bytes.h"
#include "support/test_models.h"

namespace stemma::test {
namespace {

constexpr Token kDamaged = 77;

std::string damaged_model(const std::string& architecture) {
  const std::string whole = tiny_model(architecture, "f32");
  std::string bytes = read_file(whole);
  const auto file = GgufFile::open(whole).value();
  const GgufTensor& table = *file->find_tensor("token_embd.weight");
  const std::size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(table.data), table.bytes));
  const std::size_t row = static_cast<std::size_t>(table.shape[0]) * sizeof(float);
  std::memset(&bytes[at + kDamaged * row], 0xff, row);
  const std::string path = temporary_directory() + "/damaged-" + architecture + ".gguf";
  write_file(path, bytes);
  return path;
}

std::vector<Token> prompt_with(Token token, Depth length, Depth place) {
  std::vector<Token> prompt;
  for (Depth i = 0; i < length; ++i) prompt.push_back(100 + (7 * i) % 500);
  prompt[static_cast<std::size_t>(place)] = token;
  return prompt;
}

class DamagedWeights : public ::testing::TestWithParam<std::string> {};

TEST_P(DamagedWeights, FailOnlyTheRequestsThatUseThem) {
  LogitsBook book;
  const EngineConfig config{.step_tokens = 64, .context_length = 512};
  EngineHarness harness(damaged_model(GetParam()), config, book);
  const auto good = prompt_with(5, 150, 100);
  const Answer before = harness.generate(good, 12);
  ASSERT_EQ(before.result.reason, FinishReason::length);

  for (const Depth place : {0, 70, 149}) {  // in the first, a middle and the last chunk
    const auto bad = prompt_with(kDamaged, 150, place);
    std::vector<Pending> beside;
    beside.push_back(harness.start(greedy(good, 12)));
    Pending failing = harness.start(greedy(bad, 12));
    beside.push_back(harness.start(greedy(prompt_with(6, 90, 20), 12)));
    const Answer failed = failing.wait();
    EXPECT_EQ(failed.result.reason, FinishReason::error);
    ASSERT_TRUE(failed.result.error);
    EXPECT_EQ(failed.result.error->code(), ErrorCode::model_not_a_number);
    EXPECT_TRUE(failed.tokens.empty());
    EXPECT_EQ(beside[0].wait().tokens, before.tokens);
    EXPECT_EQ(beside[1].wait().result.reason, FinishReason::length);

    // Its pages and rows, which hold NaNs, are the next ones' to use.
    EXPECT_EQ(harness.generate(good, 12).tokens, before.tokens);
    harness.engine().flush_cache();
    EXPECT_EQ(harness.generate(good, 12).tokens, before.tokens);
  }
  EXPECT_EQ(harness.idle_stats().requests_failed, 3u);
  EXPECT_EQ(harness.idle_stats().cache.leases, 0u);
  for (const std::string& complaint : book.complaints()) ADD_FAILURE() << complaint;
  EXPECT_GT(book.repeats(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Architectures, DamagedWeights, ::testing::Values("qwen35", "llama"));

}  // namespace
}  // namespace stemma::test
