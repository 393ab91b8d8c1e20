#pragma once
// What the supported architectures have in common around their mixers: sizes, the embedding, the projections of
// attention, the feed-forward network and the output. Each part is read by one function and is plain data.
//
// Sources: Vaswani et al., arXiv 1706.03762; Shazeer, arXiv 2002.05202 (SwiGLU); Zhang and Sennrich,
// arXiv 1910.07467 (RMSNorm); Ainslie et al., arXiv 2305.13245 (grouped queries).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "compute/ops.h"
#include "models/config_reader.h"
#include "models/model.h"
#include "models/weight_loader.h"

namespace stemma {

// Sizes that every architecture states. All positive; n_head is a multiple of n_head_kv.
struct TransformerConfig {
  std::int64_t width;
  std::int64_t ffn_width;
  std::int64_t layers;  // blocks that run
  std::int64_t blocks;  // blocks in the file: layers and the multi-token-prediction blocks after them
  std::int64_t n_head;
  std::int64_t n_head_kv;
  std::int64_t head_size;
  std::int64_t context_length;
  std::int64_t vocabulary;
  float norm_eps;
};

// Reads and checks them. Errors: `model_missing_key`, `model_bad_key`, `gguf_bad_metadata`.
Result<TransformerConfig> read_transformer_config(const ConfigReader& config);

// "blk.3.ffn_norm" for (3, "ffn_norm").
std::string block_tensor(std::int64_t block, std::string_view name);

// The projections to q, k and v, which files hold as three matrices or as one.
struct QkvProjection {
  std::variant<std::array<Ops::LinearTerm, 3>, Ops::LinearTerm> terms;
  std::int64_t q_cols;
  std::int64_t k_cols;
  std::int64_t v_cols;

  // q, k and v of x's rows.
  std::array<Tensor, 3> apply(Ops& ops, Tensor x) const;
};

Result<QkvProjection> load_qkv(WeightLoader& weights, std::int64_t block, std::int64_t width, std::int64_t q_cols,
                               std::int64_t k_cols, std::int64_t v_cols);

// down(silu(gate x) * up x)
struct FeedForward {
  Ops::LinearTerm gate;
  Ops::LinearTerm up;
  Ops::LinearTerm down;

  Tensor apply(Ops& ops, Tensor x) const;
};

Result<FeedForward> load_feed_forward(WeightLoader& weights, std::int64_t block, const TransformerConfig& config);

// Before and after the blocks. `output` is the embedding's matrix where the file ties them.
struct TokenEnds {
  Matrix embedding;
  Vector output_norm;
  Matrix output;

  // The logits of the rows that the step wants, from the last block's result.
  Tensor logits(Ops& ops, Tensor x, float norm_eps) const;
};

Result<TokenEnds> load_token_ends(WeightLoader& weights, const TransformerConfig& config);

// ModelInfo of a dense decoder: each weight of its blocks is used once a token. An architecture
// adds to its FLOPs what it does beside products and attention. `attention_layers`: those that look
// at all tokens before one.
Result<ModelInfo> describe_model(const GgufFile& file, const TransformerConfig& config,
                                 const WeightLoader& weights, std::int64_t attention_layers);

}  // namespace stemma
