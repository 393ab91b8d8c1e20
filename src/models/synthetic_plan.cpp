#include "models/synthetic_plan.h"

#include <cmath>
#include <optional>

namespace stemma {
namespace {

struct DeltaNetShape {
  std::int64_t h_k;
  std::int64_t h_v;
  std::int64_t head_size;
  std::int64_t attention_interval;  // every how many-th block attends
};

struct Shape {
  std::string_view architecture;
  std::string_view preset;
  std::int64_t layers;
  std::int64_t width;
  std::int64_t ffn_width;
  std::int64_t n_head;
  std::int64_t n_head_kv;
  std::int64_t head_size;
  std::int64_t n_rot;
  float rope_base;
  std::uint32_t context_length;
  bool tied;  // the output matrix is the embedding's
  std::optional<DeltaNetShape> delta_net;
};

// Widths are multiples of 256, the block of the K-quants. `tiny` has fewer key than value heads and an output matrix of
// its own, so that both occur in tests; `0.8b` is Qwen3.5-0.8B's shape and, for dense models, one of its size.
constexpr Shape kShapes[] = {
    {"qwen35", "tiny", 4, 256, 512, 4, 2, 64, 16, 1e6f, 32768, false, DeltaNetShape{2, 4, 64, 2}},
    {"qwen35", "small", 12, 512, 1536, 4, 2, 128, 32, 1e6f, 32768, true, DeltaNetShape{4, 8, 128, 4}},
    {"qwen35", "0.8b", 24, 1024, 3584, 8, 2, 256, 64, 1e7f, 262144, true, DeltaNetShape{16, 16, 128, 4}},
    {"llama", "tiny", 4, 256, 512, 4, 2, 64, 64, 1e5f, 32768, false, std::nullopt},
    {"llama", "small", 12, 512, 1536, 8, 2, 64, 64, 1e5f, 32768, true, std::nullopt},
    {"llama", "0.8b", 36, 1024, 4096, 16, 4, 64, 64, 5e5f, 131072, true, std::nullopt},
    {"qwen3", "tiny", 4, 256, 512, 4, 2, 64, 64, 1e6f, 32768, false, std::nullopt},
    {"qwen3", "small", 12, 512, 1536, 4, 2, 128, 128, 1e6f, 32768, true, std::nullopt},
    {"qwen3", "0.8b", 28, 1024, 3584, 16, 8, 128, 128, 1e6f, 40960, true, std::nullopt},
};

Result<Shape> find_shape(std::string_view architecture, std::string_view preset) {
  std::string known;
  for (const Shape& shape : kShapes) {
    if (shape.architecture == architecture && shape.preset == preset) return shape;
    known += (known.empty() ? "" : ", ") + std::string(shape.architecture) + " " + std::string(shape.preset);
  }
  return fail(ErrorCode::make_model_bad_option,
              {{"reason", "there is no " + std::string(architecture) + " of preset " + std::string(preset) +
                              "; known are " + known}});
}

// Whether a block's sensitive matrices get more bits in llama.cpp's Q4_K_M: in the first and the
// last eighth of the blocks and in every third between.
bool has_more_bits(std::int64_t block, std::int64_t blocks) {
  return block < blocks / 8 || block >= 7 * blocks / 8 || (block - blocks / 8) % 3 == 2;
}

constexpr std::int64_t kConvKernel = 4;
constexpr float kLogitDeviation = 2.5f;
constexpr float kScoreGain = 1.4f;  // of queries and of keys: scores spread by its square
constexpr float kNormDeviation = 0.1f;

class Planner {
 public:
  Planner(const Shape& shape, std::int64_t vocabulary) : shape_(shape), vocabulary_(vocabulary) {}

  SyntheticPlan plan() {
    plan_keys();
    const auto width = static_cast<float>(shape_.width);
    add("token_embd.weight", {shape_.width, vocabulary_}, true,
        Normal{0, kLogitDeviation / std::sqrt(width)}, shape_.tied);
    plan_norm("output_norm.weight", shape_.width);
    if (!shape_.tied) {
      add("output.weight", {shape_.width, vocabulary_}, true,
          Normal{0, kLogitDeviation / std::sqrt(width)}, true);
    }
    for (std::int64_t i = 0; i < shape_.layers; ++i) plan_block(i);
    return std::move(plan_);
  }

 private:
  void plan_keys() {
    const auto u32 = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    key("context_length", shape_.context_length);
    key("embedding_length", u32(shape_.width));
    key("block_count", u32(shape_.layers));
    key("feed_forward_length", u32(shape_.ffn_width));
    key("attention.head_count", u32(shape_.n_head));
    key("attention.head_count_kv", u32(shape_.n_head_kv));
    key("attention.key_length", u32(shape_.head_size));
    key("attention.value_length", u32(shape_.head_size));
    key("attention.layer_norm_rms_epsilon", 1e-6f);
    key("rope.dimension_count", u32(shape_.n_rot));
    key("rope.freq_base", shape_.rope_base);
    key("vocab_size", u32(vocabulary_));
    if (!shape_.delta_net) return;
    // The planes take the pairs in turn, so that text's three cover all of them.
    const auto pairs = static_cast<std::int32_t>(shape_.n_rot / 2);
    key("rope.dimension_sections", std::vector<std::int32_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
    key("ssm.conv_kernel", u32(kConvKernel));
    key("ssm.state_size", u32(shape_.delta_net->head_size));
    key("ssm.group_count", u32(shape_.delta_net->h_k));
    key("ssm.time_step_rank", u32(shape_.delta_net->h_v));
    key("ssm.inner_size", u32(shape_.delta_net->h_v * shape_.delta_net->head_size));
    key("full_attention_interval", u32(shape_.delta_net->attention_interval));
  }

  void plan_block(std::int64_t i) {
    block_ = "blk." + std::to_string(i) + ".";
    more_bits_ = has_more_bits(i, shape_.layers);
    plan_norm(block_ + "attn_norm.weight", shape_.width);
    if (shape_.delta_net && (i + 1) % shape_.delta_net->attention_interval != 0) {
      plan_delta_net(*shape_.delta_net);
    } else {
      plan_attention();
    }
    plan_norm(block_ + (shape_.delta_net ? "post_attention_norm.weight" : "ffn_norm.weight"), shape_.width);
    plan_matrix("ffn_gate", shape_.width, shape_.ffn_width, 1);
    plan_matrix("ffn_up", shape_.width, shape_.ffn_width, 1);
    plan_matrix("ffn_down", shape_.ffn_width, shape_.width, 1.7f * residual_gain(), more_bits_);
  }

  void plan_attention() {
    const std::int64_t q_cols = shape_.n_head * shape_.head_size;
    const std::int64_t kv_cols = shape_.n_head_kv * shape_.head_size;
    const bool head_norms = shape_.architecture != "llama";
    const float projection_gain = head_norms ? 1 : kScoreGain;
    plan_matrix("attn_q", shape_.width, shape_.delta_net ? 2 * q_cols : q_cols, projection_gain);
    plan_matrix("attn_k", shape_.width, kv_cols, projection_gain);
    plan_matrix("attn_v", shape_.width, kv_cols, 1, more_bits_);
    plan_matrix("attn_output", q_cols, shape_.width, 2 * residual_gain());
    if (head_norms) {
      for (const char* name : {"attn_q_norm.weight", "attn_k_norm.weight"}) {
        add(block_ + name, {shape_.head_size}, false, Normal{kScoreGain, kNormDeviation});
      }
    }
  }

  void plan_delta_net(const DeltaNetShape& net) {
    const std::int64_t v_cols = net.h_v * net.head_size;
    const std::int64_t conv_cols = 2 * net.h_k * net.head_size + v_cols;
    plan_matrix("attn_qkv", shape_.width, conv_cols, 1, more_bits_);
    plan_matrix("attn_gate", shape_.width, v_cols, 1);
    plan_matrix("ssm_alpha", shape_.width, net.h_v, 1);
    plan_matrix("ssm_beta", shape_.width, net.h_v, 1);
    add(block_ + "ssm_conv1d.weight", {kConvKernel, conv_cols}, false, Normal{0, 0.7f});
    // Mamba-2's initialisation (arXiv 2405.21060), which training keeps the spread of.
    add(block_ + "ssm_dt.bias", {net.h_v}, false, InverseSoftplusLogUniform{0.001f, 0.1f});
    add(block_ + "ssm_a", {net.h_v}, false, LogUniform{-1, 1, 16});
    plan_norm(block_ + "ssm_norm.weight", net.head_size);
    plan_matrix("ssm_out", v_cols, shape_.width, 1.7f * residual_gain());
  }

  // Two additions a block together grow the residual stream's variance by about 1.
  float residual_gain() const { return 1 / std::sqrt(2 * static_cast<float>(shape_.layers)); }

  void plan_norm(std::string name, std::int64_t size) {
    add(std::move(name), {size}, false, Normal{1, kNormDeviation});
  }

  // A matrix that maps unit scale to `gain`.
  void plan_matrix(const char* stem, std::int64_t inputs, std::int64_t outputs, float gain,
                   bool is_sensitive = false) {
    add(block_ + stem + ".weight", {inputs, outputs}, true,
        Normal{0, gain / std::sqrt(static_cast<float>(inputs))}, is_sensitive);
  }

  template <class Values>
  void add(std::string name, std::vector<std::int64_t> shape, bool is_matrix, Values values,
           bool is_sensitive = false) {
    plan_.tensors.push_back({std::move(name), std::move(shape), is_matrix, is_sensitive, values});
  }

  template <class Value>
  void key(const char* name, Value value) {
    plan_.keys.push_back({std::string(shape_.architecture) + "." + name, std::move(value)});
  }

  const Shape& shape_;
  std::int64_t vocabulary_;
  SyntheticPlan plan_;
  std::string block_;       // "blk.3."
  bool more_bits_ = false;  // of the block
};

}  // namespace

Result<SyntheticPlan> plan_synthetic_model(std::string_view architecture, std::string_view preset,
                                           std::int64_t vocabulary) {
  STEMMA_TRY(const Shape shape, find_shape(architecture, preset));
  return Planner(shape, vocabulary).plan();
}

}  // namespace stemma
