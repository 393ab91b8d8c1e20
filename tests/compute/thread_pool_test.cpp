#include "compute/cpu/thread_pool.h"

#include <atomic>
#include <ctime>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace stemma {
namespace {

// Each item of many short jobs runs once, and the caller sees what it wrote.
void expect_all_items(ThreadPool& pool) {
  for (std::size_t items = 0; items < 300; ++items) {
    std::vector<int> runs(items, 0);
    pool.parallel_for(items, [&](std::size_t item, int thread) {
      EXPECT_LT(thread, pool.threads());
      ++runs[item];
    });
    EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), 0), static_cast<int>(items));
    for (const int count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(ThreadPool, RunsEachItemOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int round = 0; round < 3; ++round) {
      expect_all_items(pool);  // workers asleep
      const ThreadPool::Busy busy(pool);
      expect_all_items(pool);
    }
  }
}

// Two items that wait for each other complete only on two threads.
TEST(ThreadPool, WorkersTakePart) {
  ThreadPool pool(2);
  const ThreadPool::Busy busy(pool);
  std::atomic<int> arrived{0};
  pool.parallel_for(2, [&](std::size_t, int) {
    ++arrived;
    while (arrived != 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, IdleWorkersUseNoTime) {
  ThreadPool pool(4);
  {
    const ThreadPool::Busy busy(pool);
    expect_all_items(pool);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::clock_t before = std::clock();  // processor time of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.1);
}

}  // namespace
}  // namespace stemma
