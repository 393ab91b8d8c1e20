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

ThreadPool::ThreadPool(int threads) : ranges_(static_cast<std::size_t>(threads)) {
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
  unfinished_.store(items, std::memory_order_relaxed);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const std::uint64_t first = items * i / ranges_.size(), last = items * (i + 1) / ranges_.size();
    ranges_[i].items.store(first << 32 | last, std::memory_order_release);
  }
  while (run_one_item(0)) {
  }
  for (Backoff backoff; unfinished_.load(std::memory_order_acquire) != 0;) backoff.wait();
}

// A successful exchange claims an item of the job that is current at that moment, whichever job was current when
// the range was read: nothing of the job is read before, and between jobs all ranges are empty.
std::optional<std::size_t> ThreadPool::claim(Range& range, bool first) {
  std::uint64_t items = range.items.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t begin = items >> 32, end = items & 0xffffffff;
    if (begin == end) return std::nullopt;
    const std::uint64_t rest = first ? (begin + 1) << 32 | end : begin << 32 | (end - 1);
    if (range.items.compare_exchange_weak(items, rest, std::memory_order_acquire, std::memory_order_relaxed)) {
      return first ? begin : end - 1;
    }
  }
}

bool ThreadPool::run_one_item(int thread) {
  const auto own = static_cast<std::size_t>(thread);
  std::optional<std::size_t> item = claim(ranges_[own], true);
  for (std::size_t i = 1; !item && i < ranges_.size(); ++i) {
    item = claim(ranges_[(own + i) % ranges_.size()], false);
  }
  if (!item) return false;
  run_(context_, *item, thread);
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
