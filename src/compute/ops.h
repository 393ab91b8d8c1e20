#pragma once
// What a model may ask of a device inside one step. A model's forward pass is written once in these operations;
// a device that computes eagerly (our CPU device) carries each out when it is called, a device that records graphs
// (ggml's GPUs, MLX) appends nodes and runs them when the step ends.
//
// Shapes: a Tensor has one row a token, the step's segments one after the other in order, unless said otherwise.
// All values are f32. Every operation works row by row except attention, conv_silu and gated_delta_net, which
// follow the segments of the step.
//
// Errors: none. Shapes were checked when the model was loaded and the step when it was built; checked builds assert.
//
// Exact (CPU device): the value of each output row depends on that row's sequence alone, bit for bit: not on the
// other segments, the chunking, the number of threads or the page size.
//
// Threads: one thread drives an Ops at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compute/tensor.h"

namespace stemma {

// A matrix on the device for linear(): `cols` inputs, `rows` outputs, in any GGUF type. Made by Device::matrix().
struct Matrix {
  std::uint32_t id;
  std::int64_t cols;
  std::int64_t rows;
};

// A vector of f32 on the device (norm weights, biases, convolution kernels flattened row by row).
struct Vector {
  std::uint32_t id;
  std::int64_t size;
};

// Rotary position embedding. `pairs` says which channels of a head rotate together: neighbours (2i, 2i+1) or
// halves (i, i + n_rot/2). For text all position planes of multimodal rope (MROPE, IMROPE) are equal, and it
// reduces to `halves`. Angle of pair i at depth p: p * freq_base^(-2i/n_rot) / factors[i] * freq_scale.
struct RopeParams {
  enum class Pairs { neighbours, halves } pairs;
  int head_size;
  int n_rot;  // even, <= head_size; channels from n_rot on pass unchanged
  float freq_base;
  float freq_scale = 1.0f;           // linear scaling: 1 / rope.scaling.factor
  std::optional<Vector> factors;     // n_rot/2 divisors (rope_freqs.weight), if the file has them
};

struct AttentionParams {
  int layer;      // index into KvLayout::layers
  int n_head;     // query heads; query head h reads KV head h / (n_head / n_head_kv)
  int n_head_kv;
  int k_size;     // head size of q and k
  int v_size;
  float scale;    // applied to q.k before softmax
};

struct GatedDeltaNetParams {
  int layer;   // index into StateLayout::layers
  int h_k;     // heads of q and k; value head h reads key head h % h_k (tiled order)
  int h_v;
  int d_k;
  int d_v;
};

class Ops {
 public:
  virtual ~Ops() = default;

  // Frees, when it ends, every Tensor made since it began. Scopes nest like the blocks they stand in.
  class Scope {
   public:
    explicit Scope(Ops& ops) : ops_(ops), mark_(ops.open_scope()) {}
    ~Scope() { ops_.close_scope(mark_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ops& ops_;
    std::size_t mark_;
  };

  // --- rows in, rows out -------------------------------------------------------------------------------------

  // The embedding row of each token of the step. [tokens, table.cols]
  virtual Tensor embed(Matrix table) = 0;

  // x W^T for several matrices over one input, each plus its bias if it has one; out[i] is [x.rows, weights[i].rows].
  // One call, so that a quantizing device prepares x once.
  struct LinearTerm {
    Matrix weight;
    std::optional<Vector> bias = std::nullopt;
  };
  virtual void linear(Tensor x, std::span<const LinearTerm> terms, std::span<Tensor> out) = 0;

  Tensor linear(Tensor x, LinearTerm term) {
    Tensor y;
    linear(x, {&term, 1}, {&y, 1});
    return y;
  }
  template <std::size_t N>
  std::array<Tensor, N> linear(Tensor x, const LinearTerm (&terms)[N]) {
    std::array<Tensor, N> y;
    linear(x, terms, y);
    return y;
  }

  // Each run of weight.size columns y = x / sqrt(mean(x^2) + eps) * weight. x.cols is a multiple of weight.size.
  virtual Tensor rms_norm(Tensor x, Vector weight, float eps) = 0;

  // Each run of `group` columns divided by sqrt(sum(x^2) + eps).
  virtual Tensor l2_norm(Tensor x, std::int64_t group, float eps) = 0;

  // a += b, in place.
  virtual void add_to(Tensor a, Tensor b) = 0;

  // silu(gate) * x, elementwise. silu(v) = v / (1 + exp(-v)).
  virtual Tensor silu_mul(Tensor gate, Tensor x) = 0;

  // sigmoid(gate) * x, elementwise.
  virtual Tensor sigmoid_mul(Tensor gate, Tensor x) = 0;

  // sigmoid(x), elementwise.
  virtual Tensor sigmoid(Tensor x) = 0;

  // a * softplus(x + bias), a and bias broadcast over rows: the log-decay of delta nets and Mamba-2.
  virtual Tensor softplus_gate(Tensor x, Vector a, Vector bias) = 0;

  // Columns regrouped: x's columns are `groups` runs of `size`; takes `count` columns from `first` in each run and
  // lays them side by side. [x.rows, groups * count]. Splits projections that interleave two things a head.
  virtual Tensor split_heads(Tensor x, std::int64_t groups, std::int64_t first, std::int64_t count) = 0;

  // Rotates each head of x by its row's depth.
  virtual Tensor rope(Tensor x, const RopeParams& params) = 0;

  // The rows at the depths that the step's segments want logits for, in order. [output_count, x.cols]
  virtual Tensor select_outputs(Tensor x) = 0;

  // --- along the sequence ------------------------------------------------------------------------------------

  // Writes k and v to the pages (from kv_write_from on), then causal attention of each row's q over depths
  // [0, own depth]. q [T, n_head * k_size], k [T, n_head_kv * k_size], v [T, n_head_kv * v_size]
  // -> [T, n_head * v_size].
  virtual Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionParams& params) = 0;

  // Depthwise causal convolution over the window in the state row and the segment's rows, then silu:
  // y[t][c] = silu(sum_i kernel[c][i] * x[t - d_conv + 1 + i][c]). Updates the window; stores it at marks.
  // `kernel` is [x.cols, d_conv] flattened (ggml's conv1d order).
  virtual Tensor conv_silu(Tensor x, Vector kernel, int layer) = 0;

  // Gated delta rule (Yang et al., arXiv 2412.06464), token after token, per value head, S [d_v, d_k]:
  //   S = exp(g) S;  d = beta (v - S k);  S += d k^T;  o = S q / sqrt(d_k).
  // q, k [T, h_k * d_k] (normalised by the caller), v [T, h_v * d_v], g and beta [T, h_v] -> [T, h_v * d_v].
  // Updates the matrix in the state row; stores it at marks.
  virtual Tensor gated_delta_net(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                                 const GatedDeltaNetParams& params) = 0;

 private:
  virtual std::size_t open_scope() = 0;
  virtual void close_scope(std::size_t mark) = 0;
};

}  // namespace stemma
