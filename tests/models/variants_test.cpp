// The same model as different exporters write it gives the same logits, bit for bit; what a file may add (biases,
// scaled positions, tied matrices) agrees with libllama; what the forward pass cannot honour is refused.

#include <gguf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "compute/cpu/cpu_device.h"
#include "models/model.h"
#include "support/compare_logits.h"
#include "support/gguf_edit.h"
#include "support/llama_oracle.h"
#include "support/model_runner.h"
#include "support/test_models.h"

namespace stemma {
namespace {

using test::GgufEdit;
using Rows = std::vector<std::vector<float>>;
using Change = std::function<void(GgufEdit&)>;

std::vector<Token> some_tokens() {
  std::vector<Token> tokens;
  for (Token i = 0; i < 40; ++i) tokens.push_back((i * 577 + 13) % 2032);
  return tokens;
}

Rows stemma_logits(const std::string& path) {
  test::ModelRunner runner(path);
  return runner.prefill(runner.add_sequence(), some_tokens(), 40);
}

// A tiny model of `architecture` with a change.
std::string changed(const std::string& architecture, const Change& change) {
  GgufEdit edit(test::tiny_model(architecture, "f32"));
  change(edit);
  return edit.write(test::temporary_directory() + "/changed.gguf");
}

void expect_same_logits(const std::string& architecture, const Change& change) {
  EXPECT_EQ(stemma_logits(changed(architecture, change)), stemma_logits(test::tiny_model(architecture, "f32")));
}

// The change has an effect, and the same one in libllama.
void expect_oracle_agrees(const std::string& architecture, const Change& change) {
  const std::string path = changed(architecture, change);
  const Rows ours = stemma_logits(path);
  const std::vector<std::vector<Token>> sequences{some_tokens()};
  const Rows theirs = test::LlamaOracle(path).logits(sequences, {.kv_type = DType::f32})[0];
  EXPECT_LE(test::compare_logits(ours, theirs).nmse, 1e-8);
  EXPECT_GT(test::compare_logits(ours, stemma_logits(test::tiny_model(architecture, "f32"))).nmse, 1e-4);
}

void expect_refused(const std::string& architecture, ErrorCode code, const Change& change) {
  const auto file = GgufFile::open(changed(architecture, change));
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  const auto device = make_cpu_device({.threads = 1});
  const auto model = load_model(*file, *device);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code(), code) << model.error().to_string();
  EXPECT_THAT(model.error().message(), ::testing::Not(::testing::HasSubstr("{")));
}

std::vector<float> random_values(std::size_t count, float deviation) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// ----- the same model in other words -------------------------------------------------------------------------

TEST(Variants, RopeSectionsWithThreeEntriesOrNone) {
  expect_same_logits("qwen35", [](GgufEdit& e) {
    const std::int32_t three[] = {3, 3, 2};
    gguf_set_arr_data(e.keys(), "qwen35.rope.dimension_sections", GGUF_TYPE_INT32, three, 3);
  });
  expect_same_logits("qwen35", [](GgufEdit& e) { e.remove_key("qwen35.rope.dimension_sections"); });
}

TEST(Variants, TimeStepBiasWithoutSuffix) {
  expect_same_logits("qwen35", [](GgufEdit& e) {
    e.rename("blk.0.ssm_dt.bias", "blk.0.ssm_dt");
    e.rename("blk.2.ssm_dt.bias", "blk.2.ssm_dt");
  });
}

TEST(Variants, SizesOncePerLayer) {
  expect_same_logits("qwen35", [](GgufEdit& e) {
    const std::uint32_t heads[] = {0, 2, 0, 2};
    gguf_set_arr_data(e.keys(), "qwen35.attention.head_count_kv", GGUF_TYPE_UINT32, heads, 4);
    const bool recurrent[] = {true, false, true, false};
    gguf_set_arr_data(e.keys(), "qwen35.attention.recurrent_layers", GGUF_TYPE_BOOL, recurrent, 4);
    e.remove_key("qwen35.full_attention_interval");
  });
}

TEST(Variants, PartsForImagesAndPredictionAreLeftOut) {
  expect_same_logits("qwen35", [](GgufEdit& e) {
    e.add("v.patch_embd.weight", {4, 4}, random_values(16, 1));
    e.add("mtp.fc.weight", {4, 4}, random_values(16, 1));
    gguf_set_val_u32(e.keys(), "qwen35.block_count", 5);
    gguf_set_val_u32(e.keys(), "qwen35.nextn_predict_layers", 1);
    e.copy("blk.1.attn_q.weight", "blk.4.attn_q.weight");
    e.add("blk.4.nextn.enorm.weight", {256}, random_values(256, 1));
  });
}

TEST(Variants, FusedProjections) {
  for (const char* architecture : {"qwen35", "llama", "qwen3"}) {
    expect_same_logits(architecture, [](GgufEdit& e) {
      for (const std::string block : {"blk.1.", "blk.3."}) {
        e.fuse({block + "attn_q.weight", block + "attn_k.weight", block + "attn_v.weight"}, block + "attn_qkv.weight");
      }
    });
  }
}

TEST(Variants, DefaultsOfHeads) {
  expect_same_logits("llama", [](GgufEdit& e) {
    e.remove_key("llama.attention.key_length");
    e.remove_key("llama.attention.value_length");
    e.remove_key("llama.rope.dimension_count");
  });
}

TEST(Variants, SplitOverFiles) {
  const std::string whole = test::tiny_model("qwen35", "q8_0");
  const std::string first = GgufEdit(whole).write_split(test::temporary_directory() + "/split", 3);
  EXPECT_EQ(stemma_logits(first), stemma_logits(whole));
}

TEST(Variants, FingerprintIsTheFiles) {
  const auto device = make_cpu_device({.threads = 1});
  const auto fingerprint = [&](const std::string& path) {
    return load_model(GgufFile::open(path).value(), *device).value()->info().fingerprint;
  };
  const std::string plain = test::tiny_model("llama", "f32");
  EXPECT_EQ(fingerprint(plain), fingerprint(plain));
  EXPECT_EQ(fingerprint(plain).size(), 64u);
  EXPECT_NE(fingerprint(plain), fingerprint(test::tiny_model("llama", "f32", "tiny", 2)));
  EXPECT_NE(fingerprint(plain), fingerprint(changed("llama", [](GgufEdit& e) {
              gguf_set_val_str(e.keys(), "general.name", "another");
            })));
}

// ----- what a file may add -----------------------------------------------------------------------------------

TEST(Variants, TiedOutput) {
  for (const char* architecture : {"qwen35", "llama", "qwen3"}) {
    expect_oracle_agrees(architecture, [](GgufEdit& e) { e.remove("output.weight"); });
  }
}

TEST(Variants, Biases) {
  expect_oracle_agrees("llama", [](GgufEdit& e) {
    e.add("blk.0.attn_q.bias", {256}, random_values(256, 1));
    e.add("blk.0.attn_k.bias", {128}, random_values(128, 1));
    e.add("blk.0.attn_v.bias", {128}, random_values(128, 1));
    e.add("blk.1.attn_output.bias", {256}, random_values(256, 1));
    e.add("blk.2.ffn_gate.bias", {512}, random_values(512, 1));
    e.add("blk.2.ffn_up.bias", {512}, random_values(512, 1));
    e.add("blk.2.ffn_down.bias", {256}, random_values(256, 1));
  });
}

TEST(Variants, FrequencyFactors) {
  expect_oracle_agrees("llama", [](GgufEdit& e) {
    std::vector<float> factors(32, 1.0f);
    for (std::size_t i = 8; i < 32; ++i) factors[i] = 8.0f;
    e.add("rope_freqs.weight", {32}, factors);
  });
}

TEST(Variants, LinearScaling) {
  for (const char* architecture : {"qwen35", "llama", "qwen3"}) {
    expect_oracle_agrees(architecture, [&](GgufEdit& e) {
      gguf_set_val_str(e.keys(), (std::string(architecture) + ".rope.scaling.type").c_str(), "linear");
      gguf_set_val_f32(e.keys(), (std::string(architecture) + ".rope.scaling.factor").c_str(), 4.0f);
    });
  }
  expect_oracle_agrees("llama", [](GgufEdit& e) { gguf_set_val_f32(e.keys(), "llama.rope.scale_linear", 4.0f); });
}

TEST(Variants, YarnScaling) {
  for (const char* architecture : {"llama", "qwen3"}) {
    expect_oracle_agrees(architecture, [&](GgufEdit& e) {
      const std::string prefix = std::string(architecture) + ".rope.scaling.";
      gguf_set_val_str(e.keys(), (prefix + "type").c_str(), "yarn");
      gguf_set_val_f32(e.keys(), (prefix + "factor").c_str(), 4.0f);
      gguf_set_val_u32(e.keys(), (prefix + "original_context_length").c_str(), 8192);
    });
  }
}

// ----- what is refused ---------------------------------------------------------------------------------------

TEST(Variants, RefusesUnknownArchitectures) {
  expect_refused("llama", ErrorCode::model_unsupported_architecture,
                 [](GgufEdit& e) { gguf_set_val_str(e.keys(), "general.architecture", "rwkv7"); });
}

TEST(Variants, RefusesMissingKeys) {
  for (const char* key : {"embedding_length", "block_count", "context_length", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon", "ssm.conv_kernel",
                          "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size"}) {
    expect_refused("qwen35", ErrorCode::model_missing_key,
                   [&](GgufEdit& e) { e.remove_key(std::string("qwen35.") + key); });
  }
  expect_refused("qwen35", ErrorCode::model_missing_key,
                 [](GgufEdit& e) { e.remove_key("tokenizer.ggml.tokens"); });
}

TEST(Variants, RefusesNumbersOutOfRange) {
  const std::pair<const char*, std::uint32_t> numbers[] = {
      {"embedding_length", 0},       {"block_count", 0},          {"block_count", 4000000000},
      {"context_length", 0},         {"attention.head_count", 0}, {"attention.head_count_kv", 3},
      {"attention.head_count_kv", 8}, {"attention.value_length", 32}, {"rope.dimension_count", 15},
      {"rope.dimension_count", 66},  {"full_attention_interval", 0}, {"nextn_predict_layers", 4},
      {"ssm.group_count", 3},        {"ssm.inner_size", 255},     {"ssm.conv_kernel", 1},
      {"expert_count", 8},           {"attention.sliding_window", 512}};
  for (const auto& [key, value] : numbers) {
    SCOPED_TRACE(std::string(key) + " = " + std::to_string(value));
    expect_refused("qwen35", ErrorCode::model_bad_key, [&, k = key, v = value](GgufEdit& e) {
      gguf_set_val_u32(e.keys(), (std::string("qwen35.") + k).c_str(), v);
    });
  }
  const std::pair<const char*, float> reals[] = {{"attention.layer_norm_rms_epsilon", std::nanf("")},
                                                 {"rope.freq_base", -1.0f},
                                                 {"rope.scaling.factor", -2.0f},
                                                 {"attention.scale", 0.5f},
                                                 {"logit_scale", 8.0f},
                                                 {"final_logit_softcapping", 30.0f}};
  for (const auto& [key, value] : reals) {
    SCOPED_TRACE(key);
    expect_refused("qwen35", ErrorCode::model_bad_key, [&, k = key, v = value](GgufEdit& e) {
      gguf_set_val_f32(e.keys(), (std::string("qwen35.") + k).c_str(), v);
    });
  }
}

TEST(Variants, RefusesListsThatDoNotFit) {
  const auto list = [](const char* key, std::vector<std::int32_t> values) {
    expect_refused("qwen35", ErrorCode::model_bad_key, [&](GgufEdit& e) {
      gguf_set_arr_data(e.keys(), key, GGUF_TYPE_INT32, values.data(), values.size());
    });
  };
  list("qwen35.rope.dimension_sections", {0, 0, 0, 0});
  list("qwen35.rope.dimension_sections", {2, 2, 2, 2});  // pairs without a text position
  list("qwen35.rope.dimension_sections", {8});
  list("qwen35.attention.head_count", {4, 4, 4});
  list("qwen35.attention.head_count", {4, 8, 4, 8});
  list("qwen35.attention.recurrent_layers", {1, 0});
  list("qwen35.attention.recurrent_layers", {1, 0, 2, 0});
}

TEST(Variants, RefusesUnknownScaling) {
  for (const char* type : {"longrope", ""}) {
    expect_refused("llama", ErrorCode::model_bad_key,
                   [&](GgufEdit& e) { gguf_set_val_str(e.keys(), "llama.rope.scaling.type", type); });
  }
}

TEST(Variants, RefusesWrongTensors) {
  expect_refused("qwen35", ErrorCode::model_missing_tensor, [](GgufEdit& e) { e.remove("blk.2.ssm_a"); });
  expect_refused("llama", ErrorCode::model_missing_tensor, [](GgufEdit& e) { e.remove("blk.3.ffn_up.weight"); });
  expect_refused("qwen3", ErrorCode::model_missing_tensor, [](GgufEdit& e) { e.remove("blk.0.attn_q_norm.weight"); });
  expect_refused("llama", ErrorCode::model_bad_tensor,
                 [](GgufEdit& e) { gguf_set_val_u32(e.keys(), "llama.feed_forward_length", 513); });
  expect_refused("llama", ErrorCode::model_bad_tensor, [](GgufEdit& e) {
    const char* tokens[] = {"a", "b"};
    gguf_set_arr_str(e.keys(), "tokenizer.ggml.tokens", tokens, 2);
  });
  expect_refused("llama", ErrorCode::model_unexpected_tensor,
                 [](GgufEdit& e) { e.add("blk.0.attn_q.scale", {1}, random_values(1, 1)); });
  expect_refused("qwen3", ErrorCode::model_unexpected_tensor,
                 [](GgufEdit& e) { e.add("cls.output.weight", {256, 2}, random_values(512, 1)); });
}

TEST(Variants, RefusesTypesThatCannotBeMultipliedWith) {
  expect_refused("llama", ErrorCode::weight_type_unsupported, [](GgufEdit& e) {
    e.set_type("blk.0.ffn_up.weight", 26);  // I32, of the same size as F32
  });
  expect_refused("llama", ErrorCode::model_bad_tensor, [](GgufEdit& e) { e.set_type("blk.0.ffn_norm.weight", 26); });
}

}  // namespace
}  // namespace stemma
