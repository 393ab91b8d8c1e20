#include "compute/cpu/memory_speed.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/memory_speed.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stemma {
namespace HWY_NAMESPACE {

// With the widest loads, so that the time goes to memory and not to instructions, and several sums,
// so that additions do not wait for each other. `count` is a multiple of four vectors.
std::uint64_t SumOf(const std::uint64_t* words, std::size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, hn::Load(d, words + i));
    sum1 = hn::Add(sum1, hn::Load(d, words + i + lanes));
    sum2 = hn::Add(sum2, hn::Load(d, words + i + 2 * lanes));
    sum3 = hn::Add(sum3, hn::Load(d, words + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

}  // namespace HWY_NAMESPACE
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <chrono>

#include "compute/cpu/memory.h"
#include "compute/cpu/thread_pool.h"

namespace stemma {

HWY_EXPORT(SumOf);

namespace {

// What a thread takes at a time.
constexpr std::size_t kPieceWords = (std::size_t{1} << 20) / sizeof(std::uint64_t);

}  // namespace

Result<std::vector<double>> measure_memory_reads(std::size_t bytes, int threads, int passes) {
  const std::size_t pieces = (bytes / sizeof(std::uint64_t) + kPieceWords - 1) / kPieceWords;
  STEMMA_TRY(const Mapping memory,
             Mapping::create(pieces * kPieceWords, sizeof(std::uint64_t), "memory to read"));
  auto* const words = reinterpret_cast<std::uint64_t*>(memory.data());
  ThreadPool pool(threads);
  const ThreadPool::Busy busy(pool);
  pool.parallel_for(pieces, [&](std::size_t piece, int) {
    for (std::size_t i = 0; i < kPieceWords; ++i) words[piece * kPieceWords + i] = i;
  });

  std::vector<std::uint64_t> sums(pieces);
  std::vector<double> speeds;
  for (int pass = 0; pass <= passes; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(pieces, [&](std::size_t piece, int) {
      sums[piece] += HWY_DYNAMIC_DISPATCH(SumOf)(words + piece * kPieceWords, kPieceWords);
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (pass > 0) speeds.push_back(static_cast<double>(memory.size()) / took.count());
  }
  return speeds;
}

}  // namespace stemma
#endif  // HWY_ONCE
