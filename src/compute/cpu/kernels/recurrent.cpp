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

// Tokens that pass over the state before it goes back to memory: their q and k stay in the L1 cache.
constexpr size_t kTokenBlock = 16;

// A block of tokens over kRows rows of the state, each kVectors long, held in registers. The order of every sum is
// fixed by kVectors alone.
template <size_t kVectors, size_t kRows>
void delta_rows(const GatedDeltaNetRun& run, size_t row, size_t begin, size_t end, const float* decay, float scale) {
  const Floats d;
  constexpr size_t kSums = kVectors < 4 ? kVectors : 4;
  Vec m[kRows][kVectors];
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t n = 0; n < kVectors; ++n) m[r][n] = hn::LoadU(d, run.state + (row + r) * run.d_k + n * kLanes);
  }
  const auto total = [](const Vec* sums) HWY_ATTR {
    if constexpr (kSums == 1) {
      return sum_of_lanes(sums[0]);
    } else if constexpr (kSums == 2) {
      return sum_of_lanes(hn::Add(sums[0], sums[1]));
    } else if constexpr (kSums == 3) {
      return sum_of_lanes(hn::Add(hn::Add(sums[0], sums[1]), sums[2]));
    } else {
      return sum_of_lanes(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
    }
  };
  for (size_t t = begin; t < end; ++t) {
    const float* k = run.k + t * run.k_stride;
    const float* q = run.q + t * run.q_stride;
    const float* v = run.v + t * run.v_stride + row;
    float* out = run.out + t * run.out_stride + row;
    const Vec e = hn::Set(d, decay[t - begin]);
    Vec sums[kRows][kSums];
    HWY_UNROLL(8)
    for (size_t n = 0; n < kVectors; ++n) {
      const Vec kn = hn::LoadU(d, k + n * kLanes);
      HWY_UNROLL(8)
      for (size_t r = 0; r < kRows; ++r) {
        m[r][n] = hn::Mul(m[r][n], e);
        sums[r][n % kSums] = n < kSums ? hn::Mul(m[r][n], kn) : hn::MulAdd(m[r][n], kn, sums[r][n % kSums]);
      }
    }
    const float beta = run.beta[t * run.beta_stride];
    Vec delta[kRows];
    HWY_UNROLL(8)
    for (size_t r = 0; r < kRows; ++r) delta[r] = hn::Set(d, (v[r] - total(sums[r])) * beta);
    HWY_UNROLL(8)
    for (size_t n = 0; n < kVectors; ++n) {
      const Vec kn = hn::LoadU(d, k + n * kLanes);
      const Vec qn = hn::LoadU(d, q + n * kLanes);
      HWY_UNROLL(8)
      for (size_t r = 0; r < kRows; ++r) {
        m[r][n] = hn::MulAdd(delta[r], kn, m[r][n]);
        sums[r][n % kSums] = n < kSums ? hn::Mul(m[r][n], qn) : hn::MulAdd(m[r][n], qn, sums[r][n % kSums]);
      }
    }
    HWY_UNROLL(8)
    for (size_t r = 0; r < kRows; ++r) out[r] = total(sums[r]) * scale;
  }
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t n = 0; n < kVectors; ++n) hn::StoreU(m[r][n], d, run.state + (row + r) * run.d_k + n * kLanes);
  }
}

// The same for a row of any length, which stays in the L1 cache.
void delta_row_any(const GatedDeltaNetRun& run, size_t row, size_t begin, size_t end, const float* decay,
                   float scale) {
  const Floats d;
  float* m = run.state + row * run.d_k;
  const size_t full = run.d_k / kLanes * kLanes;
  const size_t rest = run.d_k - full;
  for (size_t t = begin; t < end; ++t) {
    const float* k = run.k + t * run.k_stride;
    const float* q = run.q + t * run.q_stride;
    const Vec e = hn::Set(d, decay[t - begin]);
    Vec s0 = hn::Zero(d), s1 = s0;
    for (size_t i = 0; i < full; i += kLanes) {
      const Vec mi = hn::Mul(hn::LoadU(d, m + i), e);
      hn::StoreU(mi, d, m + i);
      s0 = hn::MulAdd(mi, hn::LoadU(d, k + i), s0);
      std::swap(s0, s1);
    }
    if (rest != 0) {
      const Vec mi = hn::Mul(load_part(m + full, rest), e);
      store_part(mi, m + full, rest);
      s0 = hn::MulAdd(mi, load_part(k + full, rest), s0);
    }
    const float along_k = sum_of_lanes(hn::Add(s0, s1));
    const Vec delta = hn::Set(d, (run.v[t * run.v_stride + row] - along_k) * run.beta[t * run.beta_stride]);
    s0 = s1 = hn::Zero(d);
    for (size_t i = 0; i < full; i += kLanes) {
      const Vec mi = hn::MulAdd(delta, hn::LoadU(d, k + i), hn::LoadU(d, m + i));
      hn::StoreU(mi, d, m + i);
      s0 = hn::MulAdd(mi, hn::LoadU(d, q + i), s0);
      std::swap(s0, s1);
    }
    if (rest != 0) {
      const Vec mi = hn::MulAdd(delta, load_part(k + full, rest), load_part(m + full, rest));
      store_part(mi, m + full, rest);
      s0 = hn::MulAdd(mi, load_part(q + full, rest), s0);
    }
    run.out[t * run.out_stride + row] = sum_of_lanes(hn::Add(s0, s1)) * scale;
  }
}

// All rows, kRows at a time, and the last ones singly.
template <size_t kVectors>
void delta_head(const GatedDeltaNetRun& run, size_t begin, size_t end, const float* decay, float scale) {
  constexpr size_t kRows = HWY_MAX(size_t{1}, HWY_MIN(size_t{4}, kRegisters / 2 / kVectors));
  size_t row = 0;
  for (; row + kRows <= run.d_v; row += kRows) delta_rows<kVectors, kRows>(run, row, begin, end, decay, scale);
  for (; row < run.d_v; ++row) delta_rows<kVectors, 1>(run, row, begin, end, decay, scale);
}

void GatedDeltaNet(const GatedDeltaNetRun& run) {
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(run.d_k)));
  for (size_t begin = 0; begin < run.tokens; begin += kTokenBlock) {
    const size_t end = HWY_MIN(begin + kTokenBlock, run.tokens);
    float decay[kTokenBlock];
    for (size_t t = begin; t < end; ++t) decay[t - begin] = exp_scalar(run.g[t * run.g_stride]);
    if (run.d_k == 2 * kLanes) {
      delta_head<2>(run, begin, end, decay, scale);
    } else if (run.d_k == 4 * kLanes) {
      delta_head<4>(run, begin, end, decay, scale);
    } else if (run.d_k == 8 * kLanes) {
      delta_head<8>(run, begin, end, decay, scale);
    } else {
      for (size_t row = 0; row < run.d_v; ++row) delta_row_any(run, row, begin, end, decay, scale);
    }
  }
}

// A vector of channels: the kernel's taps for them come side by side, then tokens follow in order.
HWY_INLINE void conv_channels(const ConvRun& run, size_t at, size_t count) {
  const Floats d;
  const size_t taps = run.taps;
  const auto row = [&](size_t i) HWY_ATTR {  // row i of the window followed by x
    return i + 1 < taps ? run.window + i * run.window_stride + at : run.x + (i + 1 - taps) * run.x_stride + at;
  };
  const auto load = [&](const float* p) HWY_ATTR { return count == kLanes ? hn::LoadU(d, p) : load_part(p, count); };
  const auto store = [&](Vec v, float* p) HWY_ATTR {
    if (count == kLanes) {
      hn::StoreU(v, d, p);
    } else {
      store_part(v, p, count);
    }
  };
  const auto tap = [&](size_t i) HWY_ATTR {
    HWY_ALIGN float values[kLanes] = {};
    for (size_t c = 0; c < count; ++c) values[c] = run.kernel[(at + c) * taps + i];
    return hn::Load(d, values);
  };
  if (taps == 4) {
    const Vec t0 = tap(0), t1 = tap(1), t2 = tap(2), t3 = tap(3);
    Vec x0 = load(row(0)), x1 = load(row(1)), x2 = load(row(2));
    for (size_t t = 0; t < run.tokens; ++t) {
      const Vec x3 = load(run.x + t * run.x_stride + at);
      const Vec sum = hn::MulAdd(t3, x3, hn::MulAdd(t2, x2, hn::MulAdd(t1, x1, hn::Mul(t0, x0))));
      store(silu(sum), run.y + t * run.y_stride + at);
      x0 = x1;
      x1 = x2;
      x2 = x3;
    }
    return;
  }
  for (size_t t = 0; t < run.tokens; ++t) {
    Vec sum = hn::Mul(tap(0), load(row(t)));
    for (size_t i = 1; i < taps; ++i) sum = hn::MulAdd(tap(i), load(row(t + i)), sum);
    store(silu(sum), run.y + t * run.y_stride + at);
  }
}

void ConvSilu(const ConvRun& run) {
  for (size_t c = 0; c < run.channels; c += kLanes) conv_channels(run, c, HWY_MIN(kLanes, run.channels - c));
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
