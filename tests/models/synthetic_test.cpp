// Random-weight models: reproducible, of the shape their preset names, and files that libllama loads too.

#include "models/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <sys/resource.h>

#include "models/gguf_file.h"
#include "support/gguf_bytes.h"
#include "support/llama_oracle.h"
#include "support/test_models.h"

namespace stemma {
namespace {

SyntheticModelSpec spec(const std::string& name) {
  return {.architecture = "qwen35",
          .preset = "tiny",
          .type = "q8_0",
          .seed = 5,
          .vocabulary_path = test::small_vocabulary(),
          .output_path = test::temporary_directory() + "/" + name};
}

TEST(Synthetic, SameSeedSameBytes) {
  auto first = spec("first.gguf");
  auto second = spec("second.gguf");
  ASSERT_TRUE(write_synthetic_model(first).has_value());
  ASSERT_TRUE(write_synthetic_model(second).has_value());
  EXPECT_EQ(test::read_file(first.output_path), test::read_file(second.output_path));
  second.seed = 6;
  ASSERT_TRUE(write_synthetic_model(second).has_value());
  EXPECT_NE(test::read_file(first.output_path), test::read_file(second.output_path));
}

TEST(Synthetic, KeepsTheTokenizer) {
  const auto vocabulary = GgufFile::open(test::small_vocabulary()).value();
  const auto model = GgufFile::open(test::tiny_model("llama", "f16")).value();
  EXPECT_EQ(model->find_strings("tokenizer.ggml.tokens").value(), vocabulary->find_strings("tokenizer.ggml.tokens").value());
  EXPECT_EQ(model->find_string("tokenizer.chat_template").value(),
            vocabulary->find_string("tokenizer.chat_template").value());
  EXPECT_EQ(model->find_tensor("token_embd.weight")->shape[1], 2048);
  EXPECT_EQ(model->find_tensor("token_embd.weight")->type, DType::f16);
  EXPECT_EQ(model->find_tensor("output_norm.weight")->type, DType::f32);
}

// The quantizer of llama.cpp is asked which tensors get which type.
TEST(Synthetic, MixesTypesAsLlamaCppDoes) {
  for (const char* architecture : {"qwen35", "llama"}) {
    for (const char* preset : {"tiny", "small"}) {
      const std::string quantized = test::temporary_directory() + "/quantized.gguf";
      test::quantize_to_q4_k_m(test::tiny_model(architecture, "bf16", preset), quantized);
      const auto theirs = GgufFile::open(quantized).value();
      const auto ours = GgufFile::open(test::tiny_model(architecture, "q4_k_m", preset)).value();
      EXPECT_EQ(ours->tensors().size(), theirs->tensors().size());
      for (const GgufTensor& tensor : ours->tensors()) {
        EXPECT_EQ(tensor.type, theirs->find_tensor(tensor.name)->type)
            << architecture << ' ' << preset << ' ' << tensor.name;
      }
    }
  }
}

TEST(Synthetic, LoadsInLibllama) {
  const std::vector<std::vector<Token>> tokens{{1, 2, 3}};
  for (const char* architecture : {"qwen35", "llama", "qwen3"}) {
    const test::LlamaOracle oracle(test::tiny_model(architecture, "f32"));
    const auto logits = oracle.logits(tokens, {.kv_type = DType::f32});
    double sum = 0;
    for (const float logit : logits[0][2]) sum += logit * logit;
    const double deviation = std::sqrt(sum / static_cast<double>(logits[0][2].size()));
    EXPECT_GT(deviation, 1.5) << architecture;
    EXPECT_LT(deviation, 4) << architecture;
  }
}

TEST(Synthetic, RefusesWhatItDoesNotKnow) {
  const auto code = [](const SyntheticModelSpec& wrong) { return write_synthetic_model(wrong).error().code(); };
  auto wrong = spec("wrong.gguf");
  wrong.architecture = "gpt2";
  EXPECT_EQ(code(wrong), ErrorCode::make_model_bad_option);
  wrong = spec("wrong.gguf");
  wrong.preset = "70b";
  EXPECT_EQ(code(wrong), ErrorCode::make_model_bad_option);
  wrong = spec("wrong.gguf");
  wrong.type = "iq1_s";  // needs an importance matrix
  EXPECT_EQ(code(wrong), ErrorCode::make_model_bad_option);
  wrong = spec("wrong.gguf");
  wrong.vocabulary_path = "no/such/vocabulary.gguf";
  EXPECT_EQ(code(wrong), ErrorCode::gguf_not_found);
  EXPECT_FALSE(std::filesystem::exists(wrong.output_path));
}

// A write that fails leaves neither the file nor its temporary.
TEST(Synthetic, LeavesNothingBehindWhenTheDiskIsFull) {
  const std::string directory = test::temporary_directory() + "/full";
  std::filesystem::create_directory(directory);
  auto cut = spec("full/model.gguf");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 100000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto status = write_synthetic_model(cut);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::file_write_failed);
  EXPECT_TRUE(std::filesystem::is_empty(directory));

  cut.output_path = test::temporary_directory() + "/no/such/directory/model.gguf";
  EXPECT_EQ(write_synthetic_model(cut).error().code(), ErrorCode::file_write_failed);
}

}  // namespace
}  // namespace stemma
