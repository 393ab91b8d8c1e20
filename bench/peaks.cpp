#include "peaks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "peaks.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/amx-inl.h"

STEMMA_BEFORE_AMX();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

constexpr size_t kSums = 12;  // independent of each other: more than an instruction takes cycles

// Each returns something that depends on all its operations, which number kSums * rounds * ...Lanes().
float MultiplyF32(size_t rounds, float x) {
  const Floats d;
  const Vec a = hn::Set(d, x), b = hn::Set(d, 1.0f - x);
  Vec sums[kSums];
  HWY_UNROLL(12)
  for (size_t i = 0; i < kSums; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  for (size_t r = 0; r < rounds; ++r) {
    HWY_UNROLL(12)
    for (size_t i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], a, b);
  }
  Vec total = hn::Zero(d);
  HWY_UNROLL(12)
  for (size_t i = 0; i < kSums; ++i) total = hn::Add(total, sums[i]);
  return sum_of_lanes(total);
}
size_t F32Lanes() { return kLanes; }

#if HWY_TARGET == HWY_SCALAR
float MultiplyI8(size_t, float) { return 0; }
size_t I8Lanes() { return 0; }
#else
float MultiplyI8(size_t rounds, float x) {
  const ByteVec w = hn::Set(Bytes(), static_cast<uint8_t>(x * 100));
  const IntVec inputs = hn::BitCast(Ints(), w);
  IntVec sums[kSums];
  HWY_UNROLL(12)
  for (size_t i = 0; i < kSums; ++i) sums[i] = hn::Set(Ints(), static_cast<int32_t>(i));
  for (size_t r = 0; r < rounds; ++r) {
    HWY_UNROLL(12)
    for (size_t i = 0; i < kSums; ++i) sums[i] = dot4(sums[i], w, inputs);
  }
  IntVec total = hn::Zero(Ints());
  HWY_UNROLL(12)
  for (size_t i = 0; i < kSums; ++i) total = hn::Add(total, sums[i]);
  return static_cast<float>(hn::GetLane(total));
}
size_t I8Lanes() { return 4 * kLanes; }
#endif

#if STEMMA_AMX
float MultiplyAmx(size_t rounds, float x) {
  const AmxTiles<64> tiles;
  alignas(64) std::byte inputs[2 * kAmxInputs * 64] = {static_cast<std::byte>(x * 100)};
  alignas(64) AmxSums sums[2];
  tiles.multiply_pairs(inputs, 64, inputs, 1, sums);  // loads the registers 1 and 2
  for (size_t r = 0; r < rounds * kSums; r += 4) {
    _tile_dpbssd(0, 1, 2);
    _tile_dpbssd(3, 1, 2);
    _tile_dpbssd(5, 1, 2);
    _tile_dpbssd(6, 1, 2);
  }
  _tile_stored(0, sums[0], sizeof(sums[0][0]));
  return static_cast<float>(sums[0][0][0]);
}
size_t AmxLanes() { return kAmxInputs * kPanelRows * 64; }
#else
float MultiplyAmx(size_t, float) { return 0; }
size_t AmxLanes() { return 0; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <chrono>
#include <vector>

#include "compute/cpu/kernels/amx.h"
#include "compute/cpu/thread_pool.h"

namespace stemma {
namespace kernels {

HWY_EXPORT(MultiplyF32);
HWY_EXPORT(MultiplyI8);
HWY_EXPORT(F32Lanes);
HWY_EXPORT(I8Lanes);
HWY_EXPORT(MultiplyAmx);
HWY_EXPORT(AmxLanes);

namespace {

constexpr size_t kRounds = 2'000'000;
constexpr size_t kMultipliesAtOnce = 12;

// The best of several tries: a peak, and other work on the machine only takes away.
template <class Multiply>
double best_rate(int threads, std::size_t lanes, Multiply multiply) {
  ThreadPool pool(threads);
  const ThreadPool::Busy busy(pool);
  std::vector<float> results(static_cast<std::size_t>(threads));
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(results.size(), [&](std::size_t item, int) { results[item] = multiply(kRounds, 0.25f); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const auto multiplies = static_cast<double>(kRounds * kMultipliesAtOnce * lanes * results.size());
    best = std::max(best, multiplies / took.count());
  }
  return best;
}

double f32_rate(int threads) {
  return best_rate(threads, HWY_DYNAMIC_DISPATCH(F32Lanes)(),
                   [](size_t rounds, float x) { return HWY_DYNAMIC_DISPATCH(MultiplyF32)(rounds, x); });
}

double i8_rate(int threads) {
  return best_rate(threads, HWY_DYNAMIC_DISPATCH(I8Lanes)(),
                   [](size_t rounds, float x) { return HWY_DYNAMIC_DISPATCH(MultiplyI8)(rounds, x); });
}

double amx_rate(int threads) {
  if (!amx_available()) return 0;
  return best_rate(threads, HWY_DYNAMIC_DISPATCH(AmxLanes)(),
                   [](size_t rounds, float x) { return HWY_DYNAMIC_DISPATCH(MultiplyAmx)(rounds, x); });
}

}  // namespace
}  // namespace kernels

double peak_f32(int threads) { return kernels::f32_rate(threads); }

double peak_i8(int threads) { return kernels::i8_rate(threads); }

double peak_amx(int threads) { return kernels::amx_rate(threads); }

}  // namespace stemma
#endif  // HWY_ONCE
