#pragma once
// Kernels of recurrent layers over a run of tokens of one sequence, token after token: what a token gives depends
// on the state before it alone, so runs may be cut anywhere.

#include <cstddef>

namespace stemma::kernels {

// One value head of a gated delta net over `tokens` tokens. Strides are in floats from token to token.
struct GatedDeltaNetRun {
  std::size_t tokens;
  std::size_t d_k;
  std::size_t d_v;
  const float* q;  // [d_k] a token
  std::size_t q_stride;
  const float* k;  // [d_k]
  std::size_t k_stride;
  const float* v;  // [d_v]
  std::size_t v_stride;
  const float* g;  // log-decay, 1 a token
  std::size_t g_stride;
  const float* beta;  // 1 a token
  std::size_t beta_stride;
  float* state;  // [d_k, d_v], updated
  float* out;    // [d_v] a token
  std::size_t out_stride;
};

// S = exp(g) S;  d = beta (v - S k);  S += d k^T;  o = S q / sqrt(d_k), for each token. O(tokens * d_v * d_k).
// Here S [d_k, d_v] is what the paper calls S^T.
void gated_delta_net(const GatedDeltaNetRun& run);

// `channels` neighbouring channels of a depthwise causal convolution over `tokens` tokens. Token t reads rows
// t - (taps - 1) to t of the window followed by x.
struct ConvRun {
  std::size_t tokens;
  std::size_t channels;
  std::size_t taps;        // d_conv, 1 to 64
  const float* kernel;     // [channels, taps]
  const float* window;     // [taps - 1] rows of `channels`, oldest first
  std::size_t window_stride;
  const float* x;          // [tokens] rows
  std::size_t x_stride;
  float* y;
  std::size_t y_stride;
};

// y[t][c] = silu(sum_i kernel[c][i] * row(t - taps + 1 + i)[c]), the sum in order of i. O(tokens*channels*taps).
void conv_silu(const ConvRun& run);

}  // namespace stemma::kernels
