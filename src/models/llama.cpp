// Dense decoders: Llama (arXiv 2302.13971, 2407.21783; also Mistral, SmolLM and others that use its name) and Qwen3
// (arXiv 2505.09388). Per block, with rms the root-mean-square norm:
//
//   h = rms(x)
//   q, k, v = Wq h, Wk h, Wv h                  (Qwen3: q and k normed per head)
//   x = x + Wo attention(rope(q), rope(k), v)
//   x = x + Wdown(silu(Wgate h') * Wup h'),     h' = rms(x)
//
// and logits = W rms(x). Llama rotates neighbouring channels (converters permute Wq and Wk for that), Qwen3 halves.

#include <cmath>
#include <vector>

#include "models/architectures.h"
#include "models/config_reader.h"
#include "models/rope_config.h"
#include "models/transformer.h"
#include "models/weight_loader.h"

namespace stemma {
namespace {

struct HeadNorms {
  Vector q;
  Vector k;
};

struct Block {
  Vector attention_norm;
  QkvProjection qkv;
  std::optional<HeadNorms> head_norms;
  Ops::LinearTerm attention_output;
  Vector ffn_norm;
  FeedForward ffn;
};

struct Variant {
  RopeParams::Pairs rope_pairs;
  bool rope_factors;  // reads rope_freqs.weight
  bool head_norms;
};
constexpr Variant kLlama{RopeParams::Pairs::neighbours, true, false};
constexpr Variant kQwen3{RopeParams::Pairs::halves, false, true};

Result<Block> load_block(WeightLoader& weights, std::int64_t i, const TransformerConfig& config,
                         const Variant& variant) {
  const std::int64_t q_cols = config.n_head * config.head_size;
  const std::int64_t kv_cols = config.n_head_kv * config.head_size;
  Block block;
  STEMMA_TRY(block.attention_norm, weights.vector(block_tensor(i, "attn_norm.weight"), {config.width}));
  STEMMA_TRY(block.qkv, load_qkv(weights, i, config.width, q_cols, kv_cols, kv_cols));
  if (variant.head_norms) {
    HeadNorms norms;
    STEMMA_TRY(norms.q, weights.vector(block_tensor(i, "attn_q_norm.weight"), {config.head_size}));
    STEMMA_TRY(norms.k, weights.vector(block_tensor(i, "attn_k_norm.weight"), {config.head_size}));
    block.head_norms = norms;
  }
  STEMMA_TRY(block.attention_output, weights.linear(block_tensor(i, "attn_output"), q_cols, config.width));
  STEMMA_TRY(block.ffn_norm, weights.vector(block_tensor(i, "ffn_norm.weight"), {config.width}));
  STEMMA_TRY(block.ffn, load_feed_forward(weights, i, config));
  return block;
}

class DenseModel final : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(std::shared_ptr<const GgufFile> file, Device& device,
                                             const LoadProgress& progress, const Variant& variant) {
    const ConfigReader config(*file);
    auto model = std::unique_ptr<DenseModel>(new DenseModel(file, device));
    STEMMA_TRY(model->config_, read_transformer_config(config));
    const TransformerConfig& sizes = model->config_;

    WeightLoader weights(*file, *model->weights_, progress);
    STEMMA_TRY(model->ends_, load_token_ends(weights, sizes));
    STEMMA_TRY(const auto rope, read_rope(config, weights, variant.rope_pairs, sizes.head_size,
                                          sizes.context_length, variant.rope_factors));
    model->rope_ = rope.params;
    model->attention_scale_ = rope.length * rope.length / std::sqrt(static_cast<float>(sizes.head_size));
    for (std::int64_t i = 0; i < sizes.layers; ++i) {
      STEMMA_TRY(auto block, load_block(weights, i, sizes, variant));
      model->blocks_.push_back(std::move(block));
    }
    STEMMA_CHECK(weights.check_nothing_left(sizes.layers));
    STEMMA_TRY(model->info_, describe_model(*file, sizes, weights, sizes.layers));
    return model;
  }

  const ModelInfo& info() const override { return info_; }

  KvLayout kv_layout(DType k_type, DType v_type, int page_size) const override {
    const std::int64_t cols = config_.n_head_kv * config_.head_size;
    return {.layers = std::vector<KvLayout::Layer>(blocks_.size(), {cols, cols}),
            .k_type = k_type,
            .v_type = v_type,
            .page_size = page_size};
  }

  StateLayout state_layout() const override { return {}; }

  WeightStore& weights() const override { return *weights_; }

  Tensor forward(Ops& ops) const override {
    const Tensor x = ops.embed(ends_.embedding);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Ops::Scope scope(ops);
      const Block& block = blocks_[i];
      ops.add_to(x, attention(ops, block, ops.rms_norm(x, block.attention_norm, config_.norm_eps), i));
      ops.add_to(x, block.ffn.apply(ops, ops.rms_norm(x, block.ffn_norm, config_.norm_eps)));
    }
    return ends_.logits(ops, x, config_.norm_eps);
  }

 private:
  DenseModel(std::shared_ptr<const GgufFile> file, Device& device)
      : file_(std::move(file)), weights_(device.make_weight_store()) {}

  Tensor attention(Ops& ops, const Block& block, Tensor h, std::size_t layer) const {
    auto [q, k, v] = block.qkv.apply(ops, h);
    if (block.head_norms) {
      q = ops.rms_norm(q, block.head_norms->q, config_.norm_eps);
      k = ops.rms_norm(k, block.head_norms->k, config_.norm_eps);
    }
    const Tensor mixed = ops.attention(ops.rope(q, rope_), ops.rope(k, rope_), v,
                                       {.layer = static_cast<int>(layer),
                                        .n_head = static_cast<int>(config_.n_head),
                                        .n_head_kv = static_cast<int>(config_.n_head_kv),
                                        .k_size = static_cast<int>(config_.head_size),
                                        .v_size = static_cast<int>(config_.head_size),
                                        .scale = attention_scale_});
    return ops.linear(mixed, block.attention_output);
  }

  std::shared_ptr<const GgufFile> file_;  // holds the bytes that weights_ may view
  std::unique_ptr<WeightStore> weights_;
  TransformerConfig config_{};
  TokenEnds ends_{};
  RopeParams rope_{};
  float attention_scale_ = 0;
  std::vector<Block> blocks_;
  ModelInfo info_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_llama(std::shared_ptr<const GgufFile> file, Device& device,
                                          const LoadProgress& progress) {
  return DenseModel::load(std::move(file), device, progress, kLlama);
}

Result<std::unique_ptr<Model>> load_qwen3(std::shared_ptr<const GgufFile> file, Device& device,
                                          const LoadProgress& progress) {
  return DenseModel::load(std::move(file), device, progress, kQwen3);
}

}  // namespace stemma
