// Vector helpers shared by the kernels. Included once for each target by foreach_target.h.
//
// Every value that a helper computes depends on the element's column alone: a partial vector at the end of a row is
// padded and goes through the same instructions as a full one.

// clang-format off
#if defined(STEMMA_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEMMA_KERNELS_SIMD_INL_H_
#undef STEMMA_KERNELS_SIMD_INL_H_
#else
#define STEMMA_KERNELS_SIMD_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;

#if HWY_TARGET == HWY_SCALAR
constexpr size_t kLanes = 1;
#else
constexpr size_t kLanes = HWY_MAX_BYTES / sizeof(float);
#endif
// Vector registers that a kernel may count on.
constexpr size_t kRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM ? 32 : 16;

// The first `count` < kLanes elements at p, then zeros.
HWY_INLINE Vec load_part(const float* p, size_t count) {
  HWY_ALIGN float padded[kLanes] = {};
  std::memcpy(padded, p, count * sizeof(float));
  return hn::Load(Floats(), padded);
}

HWY_INLINE void store_part(Vec v, float* p, size_t count) {
  HWY_ALIGN float padded[kLanes];
  hn::Store(v, Floats(), padded);
  std::memcpy(p, padded, count * sizeof(float));
}

// Loads from any array of a row at one position of it.
struct LoadFull {
  size_t at;
  HWY_INLINE Vec operator()(const float* row) const { return hn::LoadU(Floats(), row + at); }
};
struct LoadPart {
  size_t at, count;
  HWY_INLINE Vec operator()(const float* row) const { return load_part(row + at, count); }
};

// y[i] = body(load)[i]: body combines what load(array) returns, vector by vector.
template <class Body>
HWY_INLINE void map(size_t n, float* y, Body body) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(body(LoadFull{i}), Floats(), y + i);
  if (i < n) store_part(body(LoadPart{i, n - i}), y + i, n - i);
}

#if (HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2) || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
// These targets have no instruction for it, and Highway's emulation truncates.
HWY_INLINE uint16_t half_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));  // NaN
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds beyond 65504: infinity
  uint32_t half, rest, unit;  // the value is half + rest / unit
  if (magnitude >= 0x38800000) {
    half = (magnitude - 0x38000000) >> 13;
    rest = magnitude & 0x1fff;
    unit = 0x2000;
  } else {  // subnormal: shift the significand into place
    const uint32_t shift = 126 - (magnitude >> 23);
    if (shift > 24) return static_cast<uint16_t>(sign);
    const uint32_t significand = 0x800000 | (magnitude & 0x7fffff);
    half = significand >> shift;
    rest = significand & ((1u << shift) - 1);
    unit = 1u << shift;
  }
  if (2 * rest > unit || (2 * rest == unit && half % 2 == 1)) ++half;
  return static_cast<uint16_t>(sign | half);
}

// To IEEE half precision, rounded to nearest even.
HWY_INLINE void store_halves(Vec v, uint16_t* y) {
  HWY_ALIGN float values[kLanes];
  hn::Store(v, Floats(), values);
  for (size_t i = 0; i < kLanes; ++i) y[i] = half_of(values[i]);
}
#else
HWY_INLINE void store_halves(Vec v, uint16_t* y) {
  hn::StoreU(hn::DemoteTo(Halves(), v), Halves(), reinterpret_cast<hwy::float16_t*>(y));
}
#endif

// y[i] = y[i] rounded to f16.
HWY_INLINE void round_to_f16(float* y, size_t n) {
  map(n, y, [=](auto load) HWY_ATTR {
    HWY_ALIGN uint16_t halves[kLanes];
    store_halves(load(y), halves);
    return hn::PromoteTo(Floats(), hn::Load(Halves(), reinterpret_cast<const hwy::float16_t*>(halves)));
  });
}

HWY_INLINE float sum_of_lanes(Vec v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }

// sum of x[i]^2 in four running vectors, added pairwise at the end.
HWY_INLINE float sum_of_squares(const float* x, size_t n) {
  const Floats d;
  Vec s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Vec x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + kLanes);
    const Vec x2 = hn::LoadU(d, x + i + 2 * kLanes), x3 = hn::LoadU(d, x + i + 3 * kLanes);
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  for (; i + kLanes <= n; i += kLanes) {
    const Vec x0 = hn::LoadU(d, x + i);
    s0 = hn::MulAdd(x0, x0, s0);
  }
  if (i < n) {
    const Vec x0 = load_part(x + i, n - i);
    s1 = hn::MulAdd(x0, x0, s1);
  }
  return sum_of_lanes(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

// exp, with arguments beyond f32's range clamped to it.
HWY_INLINE Vec exp(Vec x) { return hn::Exp(Floats(), hn::Min(x, hn::Set(Floats(), 88.0f))); }

HWY_INLINE Vec sigmoid(Vec x) {
  const Vec one = hn::Set(Floats(), 1.0f);
  return hn::Div(one, hn::Add(one, exp(hn::Neg(x))));
}

HWY_INLINE Vec silu(Vec x) { return hn::Div(x, hn::Add(hn::Set(Floats(), 1.0f), exp(hn::Neg(x)))); }

// log(1 + exp(x)); from 20 on it equals x in f32.
HWY_INLINE Vec softplus(Vec x) {
  const Floats d;
  const Vec limit = hn::Set(d, 20.0f);
  const Vec small = hn::Log1p(d, hn::Exp(d, hn::Min(x, limit)));
  return hn::IfThenElse(hn::Gt(x, limit), x, small);
}

HWY_INLINE float exp_scalar(float x) { return hn::GetLane(exp(hn::Set(Floats(), x))); }

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#endif  // STEMMA_KERNELS_SIMD_INL_H_
