#include "compute/cpu/thread_pool.h"

#include "hwy/cache_control.h"

namespace stemma {
namespace {

// Waits a moment for another thread, longer the more often it was called in vain. The yield lets a thread that was
// put aside on a busy machine finish its item.
class Backoff {
 public:
  void wait() {
    if (++spins_ < kSpinsBeforeYield) {
      hwy::Pause();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr int kSpinsBeforeYield = 2000;
  int spins_ = 0;
};

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { worker_main(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::set_busy(bool busy) {
  {
    std::lock_guard lock(mutex_);
    busy_.store(busy, std::memory_order_relaxed);
  }
  if (busy) wake_.notify_all();
}

void ThreadPool::run_job(std::size_t items, void* context, Run run) {
  run_ = run;
  context_ = context;
  items_ = items;
  unfinished_.store(items, std::memory_order_relaxed);
  unclaimed_.store(items, std::memory_order_release);
  while (run_one_item(0)) {
  }
  for (Backoff backoff; unfinished_.load(std::memory_order_acquire) != 0;) backoff.wait();
}

// A successful exchange claims an item of the job that is current at that moment, whichever job was current when
// the count was read: nothing of the job is read before.
bool ThreadPool::run_one_item(int thread) {
  std::size_t left = unclaimed_.load(std::memory_order_relaxed);
  do {
    if (left == 0) return false;
  } while (!unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acquire, std::memory_order_relaxed));
  run_(context_, items_ - left, thread);
  unfinished_.fetch_sub(1, std::memory_order_release);
  return true;
}

void ThreadPool::worker_main(int thread) {
  Backoff backoff;
  for (;;) {
    if (run_one_item(thread)) {
      backoff = {};
    } else if (busy_.load(std::memory_order_relaxed)) {
      backoff.wait();
    } else {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || busy_.load(std::memory_order_relaxed); });
      if (stopping_) return;
      backoff = {};
    }
  }
}

}  // namespace stemma
