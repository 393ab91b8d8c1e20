#include "models/transformer.h"

#include <cmath>
#include <filesystem>

#include "models/fingerprint.h"

namespace stemma {
namespace {

// Bounds that keep products of sizes far from overflow; every size is checked against tensors of the file besides.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxBlocks = 1024;
constexpr std::int64_t kMaxHeads = 1 << 14;
constexpr std::int64_t kMaxHeadSize = 1 << 12;

}  // namespace

Result<TransformerConfig> read_transformer_config(const ConfigReader& config) {
  STEMMA_CHECK(config.reject_unsupported());
  TransformerConfig sizes;
  STEMMA_TRY(sizes.width, config.require_int("embedding_length", {1, kMaxWidth}));
  STEMMA_TRY(sizes.blocks, config.require_int("block_count", {1, kMaxBlocks}));
  STEMMA_TRY(const auto prediction_blocks, config.int_or("nextn_predict_layers", 0, {0, sizes.blocks - 1}));
  sizes.layers = sizes.blocks - prediction_blocks;
  STEMMA_TRY(sizes.context_length, config.require_int("context_length", {1, kMaxContext}));

  STEMMA_TRY(const auto ffn_width, config.find_uniform("feed_forward_length", sizes.blocks, {1, kMaxWidth}));
  if (!ffn_width) return config.missing("feed_forward_length");
  sizes.ffn_width = *ffn_width;
  STEMMA_TRY(const auto n_head, config.find_uniform("attention.head_count", sizes.blocks, {1, kMaxHeads}));
  if (!n_head) return config.missing("attention.head_count");
  sizes.n_head = *n_head;
  STEMMA_TRY(const auto n_head_kv, config.find_uniform("attention.head_count_kv", sizes.blocks, {1, sizes.n_head}));
  sizes.n_head_kv = n_head_kv.value_or(sizes.n_head);
  if (sizes.n_head % sizes.n_head_kv != 0) {
    return config.bad("attention.head_count_kv", std::to_string(sizes.n_head_kv),
                      "it must divide attention.head_count, " + std::to_string(sizes.n_head));
  }

  STEMMA_TRY(const auto key_length, config.find_int("attention.key_length", {1, kMaxHeadSize}));
  if (!key_length && sizes.width % sizes.n_head != 0) {
    return config.bad("attention.head_count", std::to_string(sizes.n_head),
                      "it must divide embedding_length where attention.key_length is absent");
  }
  sizes.head_size = key_length.value_or(sizes.width / sizes.n_head);
  if (sizes.head_size > kMaxHeadSize) {
    return config.bad("attention.head_count", std::to_string(sizes.n_head), "heads are too large");
  }
  STEMMA_TRY(const auto value_length, config.int_or("attention.value_length", sizes.head_size, {1, kMaxHeadSize}));
  if (value_length != sizes.head_size) {
    return config.bad("attention.value_length", std::to_string(value_length),
                      "heads whose keys and values differ in size are not supported");
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(sizes.head_size));
  STEMMA_TRY(const auto stated_scale, config.float_or("attention.scale", scale, {0.0, 1e3}));
  if (stated_scale != 0.0 && std::abs(stated_scale - scale) > 1e-4 * scale) {
    return config.bad("attention.scale", std::to_string(stated_scale),
                      "scales other than 1/sqrt(head size) are not supported");
  }

  STEMMA_TRY(const auto eps, config.require_float("attention.layer_norm_rms_epsilon", {0.0, 1.0}));
  sizes.norm_eps = static_cast<float>(eps);

  STEMMA_TRY(const auto tokens, config.file().find_strings("tokenizer.ggml.tokens"));
  if (!tokens) {
    return fail(ErrorCode::model_missing_key, {{"file", config.file().path()},
                                               {"key", "tokenizer.ggml.tokens"},
                                               {"architecture", config.file().architecture()}});
  }
  sizes.vocabulary = std::ssize(*tokens);
  return sizes;
}

std::string block_tensor(std::int64_t block, std::string_view name) {
  return "blk." + std::to_string(block) + "." + std::string(name);
}

std::array<Tensor, 3> QkvProjection::apply(Ops& ops, Tensor x) const {
  if (const auto* separate = std::get_if<std::array<Ops::LinearTerm, 3>>(&terms)) {
    std::array<Tensor, 3> qkv;
    ops.linear(x, *separate, qkv);
    return qkv;
  }
  const Tensor fused = ops.linear(x, std::get<Ops::LinearTerm>(terms));
  return {fused.columns(0, q_cols), fused.columns(q_cols, k_cols), fused.columns(q_cols + k_cols, v_cols)};
}

Result<QkvProjection> load_qkv(WeightLoader& weights, std::int64_t block, std::int64_t width, std::int64_t q_cols,
                               std::int64_t k_cols, std::int64_t v_cols) {
  const std::string fused_name = block_tensor(block, "attn_qkv.weight");
  STEMMA_TRY(const auto fused, weights.find_matrix(fused_name, width, q_cols + k_cols + v_cols));
  if (fused) {
    STEMMA_TRY(const auto bias, weights.find_vector(block_tensor(block, "attn_qkv.bias"), {q_cols + k_cols + v_cols}));
    return QkvProjection{Ops::LinearTerm{*fused, bias}, q_cols, k_cols, v_cols};
  }
  std::array<Ops::LinearTerm, 3> separate;
  STEMMA_TRY(separate[0], weights.linear(block_tensor(block, "attn_q"), width, q_cols));
  STEMMA_TRY(separate[1], weights.linear(block_tensor(block, "attn_k"), width, k_cols));
  STEMMA_TRY(separate[2], weights.linear(block_tensor(block, "attn_v"), width, v_cols));
  return QkvProjection{separate, q_cols, k_cols, v_cols};
}

Tensor FeedForward::apply(Ops& ops, Tensor x) const {
  const auto [g, u] = ops.linear(x, {gate, up});
  return ops.linear(ops.silu_mul(g, u), down);
}

Result<FeedForward> load_feed_forward(WeightLoader& weights, std::int64_t block, const TransformerConfig& config) {
  FeedForward ffn;
  STEMMA_TRY(ffn.gate, weights.linear(block_tensor(block, "ffn_gate"), config.width, config.ffn_width));
  STEMMA_TRY(ffn.up, weights.linear(block_tensor(block, "ffn_up"), config.width, config.ffn_width));
  STEMMA_TRY(ffn.down, weights.linear(block_tensor(block, "ffn_down"), config.ffn_width, config.width));
  return ffn;
}

Tensor TokenEnds::logits(Ops& ops, Tensor x, float norm_eps) const {
  return ops.linear(ops.rms_norm(ops.select_outputs(x), output_norm, norm_eps), Ops::LinearTerm{output});
}

Result<TokenEnds> load_token_ends(WeightLoader& weights, const TransformerConfig& config) {
  TokenEnds ends;
  STEMMA_TRY(ends.embedding, weights.table("token_embd.weight", config.width, config.vocabulary));
  STEMMA_TRY(ends.output_norm, weights.vector("output_norm.weight", {config.width}));
  STEMMA_TRY(const auto output, weights.find_matrix("output.weight", config.width, config.vocabulary));
  if (output) {
    ends.output = *output;
  } else {
    STEMMA_TRY(ends.output, weights.matrix("token_embd.weight", config.width, config.vocabulary));
  }
  return ends;
}

Result<ModelInfo> describe_model(const GgufFile& file, const TransformerConfig& config,
                                 const WeightLoader& weights, std::int64_t attention_layers) {
  STEMMA_TRY(const auto name, file.find_string("general.name"));
  const std::int64_t end_matrices = file.find_tensor("output.weight") != nullptr ? 2 : 1;
  const std::int64_t in_blocks =
      weights.parameters() - end_matrices * config.width * config.vocabulary;
  return ModelInfo{
      .architecture = file.architecture(),
      .name = name && !name->empty() ? std::string(*name)
                                     : std::filesystem::path(file.path()).stem().string(),
      .fingerprint = fingerprint(file),
      .vocabulary = config.vocabulary,
      .width = config.width,
      .layers = config.layers,
      .context_length = static_cast<Depth>(config.context_length),
      .parameters = weights.parameters(),
      .weight_bytes = weights.bytes(),
      .weight_types = weights.types(),
      .flops_per_token = 2.0 * static_cast<double>(in_blocks),
      // A product with a key and one with a value, for each query head.
      .flops_per_token_and_depth =
          4.0 * static_cast<double>(attention_layers * config.n_head * config.head_size),
  };
}

}  // namespace stemma
