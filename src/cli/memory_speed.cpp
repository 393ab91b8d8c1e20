#include "cli/memory_speed.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "compute/cpu/memory.h"
#include "compute/cpu/thread_pool.h"

namespace stemma {

namespace {

constexpr std::size_t kPieceWords =
    (std::size_t{1} << 20) / sizeof(std::uint64_t);  // what a thread takes at a time

// Several sums, so that the additions do not wait for each other.
std::uint64_t sum_of(std::span<const std::uint64_t> words) {
  constexpr std::size_t kSums = 16;
  std::array<std::uint64_t, kSums> sums{};
  for (std::size_t i = 0; i + kSums <= words.size(); i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += words[i + j];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

}  // namespace

Result<std::vector<double>> measure_memory_reads(std::size_t bytes, int threads, int passes) {
  const std::size_t pieces = (bytes / sizeof(std::uint64_t) + kPieceWords - 1) / kPieceWords;
  STEMMA_TRY(const Mapping memory,
             Mapping::create(pieces * kPieceWords, sizeof(std::uint64_t), "memory to read"));
  auto* const words = reinterpret_cast<std::uint64_t*>(memory.data());
  ThreadPool pool(threads);
  const ThreadPool::Busy busy(pool);
  const auto piece = [&](std::size_t i) { return std::span(words + i * kPieceWords, kPieceWords); };
  pool.parallel_for(pieces, [&](std::size_t i, int) {
    for (std::uint64_t& word : piece(i)) word = i;
  });

  std::vector<std::uint64_t> sums(pieces);  // written, so that no compiler leaves the reading out
  std::vector<double> speeds;
  for (int pass = 0; pass <= passes; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(pieces, [&](std::size_t i, int) { sums[i] += sum_of(piece(i)); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (pass > 0) speeds.push_back(static_cast<double>(memory.size()) / took.count());
  }
  return speeds;
}

}  // namespace stemma
