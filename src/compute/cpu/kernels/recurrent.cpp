#include "compute/cpu/kernels/recurrent.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/kernels/recurrent.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

// Tokens that pass over a part of the state while it stays in the L1 cache.
constexpr size_t kTokenBlock = 64;

// Vectors of value channels that are worked on together: their parts of the state fill a good half of the L1 cache with
// heads of 128, and their running sums the registers.
constexpr size_t kValueVectors = kRegisters == 32 ? 4 : 2;

constexpr size_t kValueChannels = kValueVectors * kLanes;

// Rows of a matrix are a power of two apart, and so fall into a part of the L1 cache's sets alone: for more than a few tokens
// the channels' part of the state is gathered first.
constexpr size_t kFewTokens = 4;
constexpr size_t kGatheredRows = 128;

// Copies `rows` rows of kValueChannels floats.
HWY_INLINE void copy_rows(const float* from, size_t from_stride, float* to, size_t to_stride, size_t rows) {
  for (size_t i = 0; i < rows; ++i) {
    HWY_UNROLL(4)
    for (size_t n = 0; n < kValueVectors; ++n) {
      const size_t at = n * kLanes;
      hn::StoreU(hn::LoadU(Floats(), from + i * from_stride + at), Floats(), to + i * to_stride + at);
    }
  }
}

// What all value channels of a token share.
struct TokenFactors {
  float decay[kTokenBlock];
  float q_along_k[kTokenBlock];
};

// A vector of a row, or its first `count` channels where kPart.
template <bool kPart>
HWY_INLINE Vec load_channels(const float* p, size_t count) {
  if constexpr (kPart) return load_part(p, count);
  return hn::LoadU(Floats(), p);
}
template <bool kPart>
HWY_INLINE void store_channels(Vec v, float* p, size_t count) {
  if constexpr (kPart) return store_part(v, p, count);
  hn::StoreU(v, Floats(), p);
}

// The tokens [begin, end) over kN vectors of value channels from `channel` on, whose part of the state is at `state`, key channel
// after key channel `stride` floats apart; of the last vector `count` channels exist where kPart. Lanes are value channels, so each lane's sums go over the key channels in order.
//
// With S' the state before a token, S' k and S' q come from one pass over it:
//   d = beta (v - e S' k);  S = e S' + d k^T;  S q = e S' q + (k.q) d,
// and the pass of the next token first carries out the update of this one. What is stored at the end of a block is what
// the next pass would have computed, so that blocks may end anywhere.
template <size_t kN, bool kPart>
void delta_channels(const GatedDeltaNetRun& run, float* state, size_t stride, size_t channel, size_t count, size_t begin,
                    size_t end, const TokenFactors& factors, float scale) {
  const Floats d;
  const auto load = [&](const float* p) HWY_ATTR { return load_channels<kPart>(p, count); };
  const auto store = [&](Vec v, float* p) HWY_ATTR { store_channels<kPart>(v, p, count); };
  Vec delta[kN];
  for (size_t t = begin; t < end; ++t) {
    const float* k = run.k + t * run.k_stride;
    const float* q = run.q + t * run.q_stride;
    Vec along_k[kN], along_q[kN];
    HWY_UNROLL(4)
    for (size_t n = 0; n < kN; ++n) along_k[n] = along_q[n] = hn::Zero(d);
    float* row = state;
    if (t == begin) {
      for (size_t i = 0; i < run.d_k; ++i, row += stride) {
        const Vec ki = hn::Set(d, k[i]), qi = hn::Set(d, q[i]);
        HWY_UNROLL(4)
        for (size_t n = 0; n < kN; ++n) {
          const Vec m = load(row + n * kLanes);
          along_k[n] = hn::MulAdd(m, ki, along_k[n]);
          along_q[n] = hn::MulAdd(m, qi, along_q[n]);
        }
      }
    } else {
      const float* before = k - run.k_stride;
      const Vec e = hn::Set(d, factors.decay[t - 1 - begin]);
      for (size_t i = 0; i < run.d_k; ++i, row += stride) {
        const Vec ki = hn::Set(d, k[i]), qi = hn::Set(d, q[i]), k_before = hn::Set(d, before[i]);
        HWY_UNROLL(4)
        for (size_t n = 0; n < kN; ++n) {
          const Vec m = hn::MulAdd(delta[n], k_before, hn::Mul(load(row + n * kLanes), e));
          store(m, row + n * kLanes);
          along_k[n] = hn::MulAdd(m, ki, along_k[n]);
          along_q[n] = hn::MulAdd(m, qi, along_q[n]);
        }
      }
    }
    const Vec e = hn::Set(d, factors.decay[t - begin]);
    const Vec beta = hn::Set(d, run.beta[t * run.beta_stride]);
    const Vec q_along_k = hn::Set(d, factors.q_along_k[t - begin]);
    const float* v = run.v + t * run.v_stride + channel;
    float* out = run.out + t * run.out_stride + channel;
    HWY_UNROLL(4)
    for (size_t n = 0; n < kN; ++n) {
      delta[n] = hn::Mul(hn::NegMulAdd(e, along_k[n], load(v + n * kLanes)), beta);
      const Vec o = hn::MulAdd(q_along_k, delta[n], hn::Mul(e, along_q[n]));
      store(hn::Mul(o, hn::Set(d, scale)), out + n * kLanes);
    }
  }
  const float* k = run.k + (end - 1) * run.k_stride;
  const Vec e = hn::Set(d, factors.decay[end - 1 - begin]);
  float* row = state;
  for (size_t i = 0; i < run.d_k; ++i, row += stride) {
    const Vec ki = hn::Set(d, k[i]);
    HWY_UNROLL(4)
    for (size_t n = 0; n < kN; ++n) {
      store(hn::MulAdd(delta[n], ki, hn::Mul(load(row + n * kLanes), e)), row + n * kLanes);
    }
  }
}

// x.y over n elements, in one running vector.
HWY_INLINE float dot_product(const float* x, const float* y, size_t n) {
  Vec sum = hn::Zero(Floats());
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = hn::MulAdd(hn::LoadU(Floats(), x + i), hn::LoadU(Floats(), y + i), sum);
  if (i < n) sum = hn::MulAdd(load_part(x + i, n - i), load_part(y + i, n - i), sum);
  return sum_of_lanes(sum);
}

void GatedDeltaNet(const GatedDeltaNetRun& run) {
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(run.d_k)));
  for (size_t begin = 0; begin < run.tokens; begin += kTokenBlock) {
    const size_t end = HWY_MIN(begin + kTokenBlock, run.tokens);
    TokenFactors factors;
    for (size_t t = begin; t < end; ++t) {
      factors.decay[t - begin] = exp_scalar(run.g[t * run.g_stride]);
      factors.q_along_k[t - begin] = dot_product(run.q + t * run.q_stride, run.k + t * run.k_stride, run.d_k);
    }
    size_t channel = 0;
    for (; channel + kValueChannels <= run.d_v; channel += kValueChannels) {
      float* state = run.state + channel;
      if (end - begin < kFewTokens || run.d_k > kGatheredRows) {
        delta_channels<kValueVectors, false>(run, state, run.d_v, channel, kLanes, begin, end, factors, scale);
        continue;
      }
      HWY_ALIGN float gathered[kGatheredRows * kValueChannels];
      copy_rows(state, run.d_v, gathered, kValueChannels, run.d_k);
      delta_channels<kValueVectors, false>(run, gathered, kValueChannels, channel, kLanes, begin, end, factors, scale);
      copy_rows(gathered, kValueChannels, state, run.d_v, run.d_k);
    }
    for (; channel + kLanes <= run.d_v; channel += kLanes) {
      delta_channels<1, false>(run, run.state + channel, run.d_v, channel, kLanes, begin, end, factors, scale);
    }
    if (channel < run.d_v) {
      delta_channels<1, true>(run, run.state + channel, run.d_v, channel, run.d_v - channel, begin, end, factors, scale);
    }
  }
}

// A vector of channels of one token: `rows` are the last tokens' inputs, oldest first, `kernel` the channels' taps, a
// vector for each.
HWY_INLINE void conv_channels(const float* const* rows, const float* kernel, size_t taps, size_t at, size_t count,
                              float* y) {
  const auto load = [&](const float* p) HWY_ATTR {
    return count == kLanes ? hn::LoadU(Floats(), p) : load_part(p, count);
  };
  Vec sum = hn::Mul(hn::Load(Floats(), kernel), load(rows[0] + at));
  for (size_t i = 1; i < taps; ++i) sum = hn::MulAdd(hn::Load(Floats(), kernel + i * kLanes), load(rows[i] + at), sum);
  if (count == kLanes) {
    hn::StoreU(silu(sum), Floats(), y + at);
  } else {
    store_part(silu(sum), y + at, count);
  }
}

// The taps of a block of channels come side by side, vector by vector; then tokens follow in order.
constexpr size_t kMaxTaps = 64;
constexpr size_t kBlockTaps = 64 * 32;  // room for channels times taps

template <size_t kTaps>
void conv_block(const ConvRun& run, size_t first, size_t channels, size_t taps) {
  HWY_ALIGN float kernel[kBlockTaps] = {};
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < taps; ++i) {
      kernel[(c / kLanes * taps + i) * kLanes + c % kLanes] = run.kernel[(first + c) * taps + i];
    }
  }
  for (size_t t = 0; t < run.tokens; ++t) {
    const float* rows[kMaxTaps];
    for (size_t i = 0; i < taps; ++i) {  // row t + i of the window followed by x
      rows[i] = first + (t + i + 1 < taps ? run.window + (t + i) * run.window_stride
                                          : run.x + (t + i + 1 - taps) * run.x_stride);
    }
    float* y = run.y + t * run.y_stride + first;
    for (size_t c = 0; c < channels; c += kLanes) {
      conv_channels(rows, kernel + c * taps, kTaps == 0 ? taps : kTaps, c, HWY_MIN(kLanes, channels - c), y);
    }
  }
}

void ConvSilu(const ConvRun& run) {
  const size_t block = kBlockTaps / run.taps / kLanes * kLanes;
  for (size_t first = 0; first < run.channels; first += block) {
    const size_t channels = HWY_MIN(block, run.channels - first);
    if (run.taps == 4) {
      conv_block<4>(run, first, channels, 4);
    } else {
      conv_block<0>(run, first, channels, run.taps);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(GatedDeltaNet);
HWY_EXPORT(ConvSilu);

void gated_delta_net(const GatedDeltaNetRun& run) { HWY_DYNAMIC_DISPATCH(GatedDeltaNet)(run); }

void conv_silu(const ConvRun& run) { HWY_DYNAMIC_DISPATCH(ConvSilu)(run); }

}  // namespace stemma::kernels
#endif  // HWY_ONCE
