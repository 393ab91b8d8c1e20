// Integer dot products inside the lanes of a vector, on each target's own instructions. Sums of integers are exact, so
// all targets give the same. Included once for each target by foreach_target.h.
//
// A `quad` is four neighbouring bytes in an i32 lane, a `pair` two neighbouring i16. No lane overflows: the callers'
// products are below 2^15 a byte and their runs at most 32 bytes long.

// clang-format off
#if defined(STEMMA_KERNELS_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEMMA_KERNELS_DOTS_INL_H_
#undef STEMMA_KERNELS_DOTS_INL_H_
#else
#define STEMMA_KERNELS_DOTS_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compute/cpu/kernels/simd-inl.h"

// Highway compiles its best target on x86 without VNNI on 512 bits, which all of its machines have. Code that calls the
// functions below stands between STEMMA_BEFORE_DOTS() and HWY_AFTER_NAMESPACE().
#undef STEMMA_VNNI
#undef STEMMA_BEFORE_DOTS
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3_DL
#define STEMMA_VNNI 1
#define STEMMA_BEFORE_DOTS() HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni") static_assert(true, "")
#else
#define STEMMA_VNNI 0
#define STEMMA_BEFORE_DOTS() HWY_BEFORE_NAMESPACE()
#endif

STEMMA_BEFORE_DOTS();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using Ints = hn::RebindToSigned<Floats>;
using IntVec = hn::Vec<Ints>;
using Bytes = hn::Repartition<uint8_t, Floats>;
using ByteVec = hn::Vec<Bytes>;
using Shorts = hn::Repartition<int16_t, Floats>;
using ShortVec = hn::Vec<Shorts>;

constexpr size_t kQuadBytes = 4 * kLanes;  // of a vector of quads

// Added to signed weights of 8 bits when they are packed: some targets multiply unsigned bytes with signed ones.
constexpr int kByteBias = STEMMA_VNNI ? 128 : 0;

// The quad at p in every lane.
HWY_INLINE IntVec quad_everywhere(const std::byte* p) {
  int32_t quad;
  std::memcpy(&quad, p, sizeof(quad));
  return hn::Set(Ints(), quad);
}

// sum + the products of the even and odd halves of two vectors of pairs.
HWY_INLINE IntVec dot2(IntVec sum, IntVec a, IntVec b) {
#if STEMMA_VNNI
  return IntVec{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
  return hn::Add(sum, IntVec{_mm512_madd_epi16(a.raw, b.raw)});
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  return hn::Add(sum, IntVec{_mm256_madd_epi16(a.raw, b.raw)});
#else
  const auto even = [](IntVec v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  const auto odd = [](IntVec v) HWY_ATTR { return hn::ShiftRight<16>(v); };
  return hn::Add(sum, hn::Add(hn::Mul(even(a), even(b)), hn::Mul(odd(a), odd(b))));
#endif
}

// sum + the products of two vectors of quads of signed bytes, without instructions for them.
HWY_INLINE IntVec dot4_portable(IntVec sum, IntVec a, IntVec b) {
  const auto products = [&](auto shift) HWY_ATTR {
    constexpr int kLeft = decltype(shift)::value;
    return hn::Mul(hn::ShiftRight<24>(hn::ShiftLeft<kLeft>(a)), hn::ShiftRight<24>(hn::ShiftLeft<kLeft>(b)));
  };
  const IntVec low = hn::Add(products(std::integral_constant<int, 24>()), products(std::integral_constant<int, 16>()));
  const IntVec high = hn::Add(products(std::integral_constant<int, 8>()), products(std::integral_constant<int, 0>()));
  return hn::Add(sum, hn::Add(low, high));
}

// sum + the products of quads of weights in [0, 127] and of inputs in [-127, 127].
HWY_INLINE IntVec dot4(IntVec sum, ByteVec weights, IntVec inputs) {
#if STEMMA_VNNI
  return IntVec{_mm512_dpbusd_epi32(sum.raw, weights.raw, inputs.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
  const IntVec pairs{_mm512_maddubs_epi16(weights.raw, inputs.raw)};
  return dot2(sum, pairs, IntVec{_mm512_set1_epi16(1)});
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  const IntVec pairs{_mm256_maddubs_epi16(weights.raw, inputs.raw)};
  return dot2(sum, pairs, IntVec{_mm256_set1_epi16(1)});
#elif HWY_ARCH_ARM_A64
  const int8x16_t w = vreinterpretq_s8_u8(weights.raw), x = vreinterpretq_s8_s32(inputs.raw);
#ifdef __ARM_FEATURE_DOTPROD
  return IntVec(vdotq_s32(sum.raw, w, x));
#else
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)));
  const int32x4_t high = vpaddlq_s16(vmull_high_s8(w, x));
  return hn::Add(sum, IntVec(vpaddq_s32(low, high)));
#endif
#else
  return dot4_portable(sum, hn::BitCast(Ints(), weights), inputs);
#endif
}

// The same for weights in [-128, 127] that were packed with kByteBias; what the bias adds is the caller's to subtract.
HWY_INLINE IntVec dot4_biased(IntVec sum, ByteVec weights, IntVec inputs) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
  const __m512i negated = _mm512_mask_sub_epi8(inputs.raw, _mm512_movepi8_mask(weights.raw), _mm512_setzero_si512(),
                                               inputs.raw);
  return dot4(sum, ByteVec{_mm512_abs_epi8(weights.raw)}, IntVec{negated});
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  return dot4(sum, ByteVec{_mm256_abs_epi8(weights.raw)}, IntVec{_mm256_sign_epi8(inputs.raw, weights.raw)});
#else
  return dot4(sum, weights, inputs);
#endif
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#endif  // STEMMA_KERNELS_DOTS_INL_H_
