// Qwen3.5: gated delta net layers (arXiv 2412.06464) and, every few blocks, gated attention. Per block, with rms the
// root-mean-square norm:
//
//   x = x + mixer(rms(x));   x = x + Wdown(silu(Wgate h) * Wup h),  h = rms(x)
//
// Gated delta net, H_k key heads and H_v value heads of d channels; value head j reads key head j mod H_k:
//   c = silu(conv(Wqkv h)); q, k, v = parts of c;  q, k = l2(q), l2(k) per head
//   z = Wz h;  beta = sigmoid(Wb h);  g = a * softplus(Wa h + dt)          (a = -exp(A_log), as files store it)
//   S = exp(g) S;  S = S + beta (v - S k) k^T;  o = S q / sqrt(d)
//   mixer = Wout(rms(o) * silu(z)), rms per head
//
// Gated attention: Wq yields, head by head, a query and a gate;
//   mixer = Wo(attention(rope(rms(q)), rope(rms(k)), v) * sigmoid(gate))
// where rope turns the first n_rot channels of a head, in halves. Its multimodal form assigns each pair to one of four
// position planes (rope.dimension_sections); text has the same position in the first three, and pairs of the fourth
// do not occur.

#include <cmath>
#include <variant>
#include <vector>

#include "models/architectures.h"
#include "models/config_reader.h"
#include "models/rope_config.h"
#include "models/transformer.h"
#include "models/weight_loader.h"

namespace stemma {
namespace {

struct DeltaNetConfig {
  std::int64_t d_conv;
  std::int64_t head_size;
  std::int64_t h_k;
  std::int64_t h_v;

  std::int64_t k_cols() const { return h_k * head_size; }
  std::int64_t v_cols() const { return h_v * head_size; }
  std::int64_t conv_cols() const { return 2 * k_cols() + v_cols(); }
};

struct DeltaNet {
  Ops::LinearTerm qkv;
  Ops::LinearTerm z;
  Ops::LinearTerm alpha;
  Ops::LinearTerm beta;
  Vector conv_kernel;
  Vector dt;
  Vector a;
  Vector norm;
  Ops::LinearTerm output;
  int layer;  // index into StateLayout::layers
};

struct GatedAttention {
  QkvProjection qkv;  // q is queries and gates
  Vector q_norm;
  Vector k_norm;
  Ops::LinearTerm output;
  int layer;  // index into KvLayout::layers
};

struct Block {
  Vector mixer_norm;
  std::variant<DeltaNet, GatedAttention> mixer;
  Vector ffn_norm;
  FeedForward ffn;
};

Result<DeltaNetConfig> read_delta_net(const ConfigReader& config) {
  DeltaNetConfig net;
  STEMMA_TRY(net.d_conv, config.require_int("ssm.conv_kernel", {2, 64}));
  STEMMA_TRY(net.head_size, config.require_int("ssm.state_size", {1, 4096}));
  STEMMA_TRY(net.h_k, config.require_int("ssm.group_count", {1, 1 << 14}));
  STEMMA_TRY(net.h_v, config.require_int("ssm.time_step_rank", {1, 1 << 14}));
  if (net.h_v % net.h_k != 0) {
    return config.bad("ssm.time_step_rank", std::to_string(net.h_v),
                      "it must be a multiple of ssm.group_count, " + std::to_string(net.h_k));
  }
  STEMMA_TRY(const auto inner, config.require_int("ssm.inner_size", {1, 1 << 26}));
  if (inner != net.v_cols()) {
    return config.bad("ssm.inner_size", std::to_string(inner),
                      "it must be ssm.time_step_rank times ssm.state_size, " + std::to_string(net.v_cols()));
  }
  return net;
}

// Which blocks are recurrent.
Result<std::vector<bool>> read_layer_kinds(const ConfigReader& config, const TransformerConfig& sizes) {
  std::vector<bool> recurrent;
  STEMMA_TRY(const auto flags, config.find_ints("attention.recurrent_layers", {0, 1}));
  if (flags && std::ssize(*flags) != sizes.blocks) {
    return config.bad("attention.recurrent_layers", "a list of " + std::to_string(flags->size()),
                      "it must have one entry a layer (" + std::to_string(sizes.blocks) + ")");
  }
  STEMMA_TRY(const auto interval, config.int_or("full_attention_interval", 4, {1, sizes.blocks + 1}));
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    recurrent.push_back(flags ? (*flags)[static_cast<std::size_t>(i)] == 1 : (i + 1) % interval != 0);
  }
  return recurrent;
}

// Checks that text positions reduce to plain rope: no pair lies in the fourth plane. Interleaved sections give pair i
// to plane i mod 3 while i < 3 * sections[i mod 3], and to the fourth plane otherwise; i counts modulo their sum.
Status check_sections(const ConfigReader& config, int n_rot) {
  constexpr std::string_view key = "rope.dimension_sections";
  STEMMA_TRY(auto sections, config.find_ints(key, {0, n_rot / 2}));
  if (!sections) return {};
  if (sections->size() != 3 && sections->size() != 4) {
    return config.bad(key, "a list of " + std::to_string(sections->size()), "it must have 3 or 4 entries");
  }
  std::int64_t sum = 0;
  for (const std::int64_t section : *sections) sum += section;
  for (std::int64_t pair = 0; pair < n_rot / 2; ++pair) {
    const std::int64_t i = sum > 0 ? pair % sum : 0;
    if (i >= 3 * (*sections)[static_cast<std::size_t>(i % 3)]) {
      return config.bad(key, "a list with sum " + std::to_string(sum),
                        "it leaves pair " + std::to_string(pair) + " of " + std::to_string(n_rot / 2) +
                            " without a text position");
    }
  }
  return {};
}

Result<DeltaNet> load_delta_net(WeightLoader& weights, std::int64_t i, std::int64_t width, const DeltaNetConfig& net) {
  DeltaNet mixer{};
  STEMMA_TRY(mixer.qkv.weight, weights.matrix(block_tensor(i, "attn_qkv.weight"), width, net.conv_cols()));
  STEMMA_TRY(mixer.z.weight, weights.matrix(block_tensor(i, "attn_gate.weight"), width, net.v_cols()));
  STEMMA_TRY(mixer.alpha.weight, weights.matrix(block_tensor(i, "ssm_alpha.weight"), width, net.h_v));
  STEMMA_TRY(mixer.beta.weight, weights.matrix(block_tensor(i, "ssm_beta.weight"), width, net.h_v));
  STEMMA_TRY(mixer.conv_kernel, weights.vector(block_tensor(i, "ssm_conv1d.weight"), {net.d_conv, net.conv_cols()}));
  STEMMA_TRY(const auto unsuffixed, weights.find_vector(block_tensor(i, "ssm_dt"), {net.h_v}));
  if (unsuffixed) {
    mixer.dt = *unsuffixed;
  } else {
    STEMMA_TRY(mixer.dt, weights.vector(block_tensor(i, "ssm_dt.bias"), {net.h_v}));
  }
  STEMMA_TRY(mixer.a, weights.vector(block_tensor(i, "ssm_a"), {net.h_v}));
  STEMMA_TRY(mixer.norm, weights.vector(block_tensor(i, "ssm_norm.weight"), {net.head_size}));
  STEMMA_TRY(mixer.output.weight, weights.matrix(block_tensor(i, "ssm_out.weight"), net.v_cols(), width));
  return mixer;
}

Result<GatedAttention> load_attention(WeightLoader& weights, std::int64_t i, const TransformerConfig& sizes) {
  const std::int64_t q_cols = sizes.n_head * sizes.head_size;
  const std::int64_t kv_cols = sizes.n_head_kv * sizes.head_size;
  GatedAttention mixer{};
  STEMMA_TRY(mixer.qkv, load_qkv(weights, i, sizes.width, 2 * q_cols, kv_cols, kv_cols));
  STEMMA_TRY(mixer.q_norm, weights.vector(block_tensor(i, "attn_q_norm.weight"), {sizes.head_size}));
  STEMMA_TRY(mixer.k_norm, weights.vector(block_tensor(i, "attn_k_norm.weight"), {sizes.head_size}));
  STEMMA_TRY(mixer.output, weights.linear(block_tensor(i, "attn_output"), q_cols, sizes.width));
  return mixer;
}

class Qwen35Model final : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(std::shared_ptr<const GgufFile> file, Device& device,
                                             const LoadProgress& progress) {
    const ConfigReader config(*file);
    auto model = std::unique_ptr<Qwen35Model>(new Qwen35Model(file, device));
    STEMMA_TRY(model->config_, read_transformer_config(config));
    STEMMA_TRY(model->net_, read_delta_net(config));
    STEMMA_TRY(const auto recurrent, read_layer_kinds(config, model->config_));

    WeightLoader weights(*file, *model->weights_, progress);
    STEMMA_TRY(model->ends_, load_token_ends(weights, model->config_));
    STEMMA_CHECK(model->load_rope(config, weights));
    for (std::int64_t i = 0; i < model->config_.layers; ++i) {
      STEMMA_CHECK(model->load_block(weights, i, recurrent[static_cast<std::size_t>(i)]));
    }
    STEMMA_CHECK(weights.check_nothing_left(model->config_.layers));
    STEMMA_TRY(model->info_,
               describe_model(*file, model->config_, weights, model->attention_layers_));
    // Per element of a recurrent matrix: the decay (1), S k, the rank-1 update and S q (2 each).
    const DeltaNetConfig& net = model->net_;
    model->info_.flops_per_token += 7.0 * static_cast<double>(model->recurrent_layers_ * net.h_v *
                                                              net.head_size * net.head_size);
    return model;
  }

  const ModelInfo& info() const override { return info_; }

  KvLayout kv_layout(DType k_type, DType v_type, int page_size) const override {
    const std::int64_t cols = config_.n_head_kv * config_.head_size;
    return {.layers = std::vector<KvLayout::Layer>(static_cast<std::size_t>(attention_layers_), {cols, cols}),
            .k_type = k_type,
            .v_type = v_type,
            .page_size = page_size};
  }

  StateLayout state_layout() const override {
    StateLayout layout;
    for (int i = 0; i < recurrent_layers_; ++i) {
      layout.add_layer(net_.d_conv - 1, net_.conv_cols(), net_.h_v, net_.head_size, net_.head_size);
    }
    return layout;
  }

  WeightStore& weights() const override { return *weights_; }

  Tensor forward(Ops& ops) const override {
    const Tensor x = ops.embed(ends_.embedding);
    for (const Block& block : blocks_) {
      const Ops::Scope scope(ops);
      const Tensor h = ops.rms_norm(x, block.mixer_norm, config_.norm_eps);
      ops.add_to(x, std::visit([&](const auto& mixer) { return mix(ops, mixer, h); }, block.mixer));
      ops.add_to(x, block.ffn.apply(ops, ops.rms_norm(x, block.ffn_norm, config_.norm_eps)));
    }
    return ends_.logits(ops, x, config_.norm_eps);
  }

 private:
  Qwen35Model(std::shared_ptr<const GgufFile> file, Device& device)
      : file_(std::move(file)), weights_(device.make_weight_store()) {}

  Status load_rope(const ConfigReader& config, WeightLoader& weights) {
    STEMMA_TRY(const auto rope, read_rope(config, weights, RopeParams::Pairs::halves, config_.head_size,
                                          config_.context_length, false));
    rope_ = rope.params;
    attention_scale_ = rope.length * rope.length / std::sqrt(static_cast<float>(config_.head_size));
    return check_sections(config, rope_.n_rot);
  }

  Status load_block(WeightLoader& weights, std::int64_t i, bool recurrent) {
    Block block{};
    STEMMA_TRY(block.mixer_norm, weights.vector(block_tensor(i, "attn_norm.weight"), {config_.width}));
    if (recurrent) {
      STEMMA_TRY(auto mixer, load_delta_net(weights, i, config_.width, net_));
      mixer.layer = recurrent_layers_++;
      block.mixer = mixer;
    } else {
      STEMMA_TRY(auto mixer, load_attention(weights, i, config_));
      mixer.layer = attention_layers_++;
      block.mixer = mixer;
    }
    STEMMA_TRY(block.ffn_norm, weights.vector(block_tensor(i, "post_attention_norm.weight"), {config_.width}));
    STEMMA_TRY(block.ffn, load_feed_forward(weights, i, config_));
    blocks_.push_back(std::move(block));
    return {};
  }

  Tensor mix(Ops& ops, const DeltaNet& net, Tensor h) const {
    const auto [qkv, z, alpha, b] = ops.linear(h, {net.qkv, net.z, net.alpha, net.beta});
    const Tensor c = ops.conv_silu(qkv, net.conv_kernel, net.layer);
    const Tensor q = ops.l2_norm(c.columns(0, net_.k_cols()), net_.head_size, config_.norm_eps);
    const Tensor k = ops.l2_norm(c.columns(net_.k_cols(), net_.k_cols()), net_.head_size, config_.norm_eps);
    const Tensor v = c.columns(2 * net_.k_cols(), net_.v_cols());
    const Tensor beta = ops.sigmoid(b);
    const Tensor g = ops.softplus_gate(alpha, net.a, net.dt);
    const Tensor o = ops.gated_delta_net(q, k, v, g, beta,
                                         {.layer = net.layer,
                                          .h_k = static_cast<int>(net_.h_k),
                                          .h_v = static_cast<int>(net_.h_v),
                                          .d_k = static_cast<int>(net_.head_size),
                                          .d_v = static_cast<int>(net_.head_size)});
    return ops.linear(ops.silu_mul(z, ops.rms_norm(o, net.norm, config_.norm_eps)), net.output);
  }

  Tensor mix(Ops& ops, const GatedAttention& attention, Tensor h) const {
    const auto [q_and_gate, k, v] = attention.qkv.apply(ops, h);
    const std::int64_t d = config_.head_size;
    const Tensor q = ops.rms_norm(ops.split_heads(q_and_gate, config_.n_head, 0, d), attention.q_norm,
                                  config_.norm_eps);
    const Tensor gate = ops.split_heads(q_and_gate, config_.n_head, d, d);
    const Tensor normed_k = ops.rms_norm(k, attention.k_norm, config_.norm_eps);
    const Tensor mixed = ops.attention(ops.rope(q, rope_), ops.rope(normed_k, rope_), v,
                                       {.layer = attention.layer,
                                        .n_head = static_cast<int>(config_.n_head),
                                        .n_head_kv = static_cast<int>(config_.n_head_kv),
                                        .k_size = static_cast<int>(d),
                                        .v_size = static_cast<int>(d),
                                        .scale = attention_scale_});
    return ops.linear(ops.sigmoid_mul(gate, mixed), attention.output);
  }

  std::shared_ptr<const GgufFile> file_;  // holds the bytes that weights_ may view
  std::unique_ptr<WeightStore> weights_;
  TransformerConfig config_{};
  DeltaNetConfig net_{};
  TokenEnds ends_{};
  RopeParams rope_{};
  float attention_scale_ = 0;
  int attention_layers_ = 0;
  int recurrent_layers_ = 0;
  std::vector<Block> blocks_;
  ModelInfo info_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_qwen35(std::shared_ptr<const GgufFile> file, Device& device,
                                           const LoadProgress& progress) {
  return Qwen35Model::load(std::move(file), device, progress);
}

}  // namespace stemma
