#pragma once
// The threads that carry out the independent items of an operation.
//
// A job is a count of items and a body. Each thread has a range of neighbouring items, so that a thread that streams
// weights reads them in order; it claims them one by one from the front, and when it has none left, from the back of other
// threads' ranges. Which thread takes which item must not matter to the result. The calling thread takes part, so a job
// completes even if no worker ever wakes.
//
// Workers spin while a Busy lives (a step has many short jobs in a row) and sleep on a condition variable otherwise:
// an idle pool uses no CPU time.
//
// Invariants: the ranges hold no more than unfinished_ items. run_ and context_ are written only when unfinished_ == 0, and
// read only by a thread that has claimed an item and not finished it.
//
// Threads: parallel_for and Busy belong to one thread at a time. A body must not call parallel_for.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

namespace stemma {

class ThreadPool {
 public:
  // `threads` >= 1 counts the calling thread: threads - 1 workers are started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Keeps the workers awake while it lives. Jobs outside of one run on the calling thread alone.
  class Busy {
   public:
    explicit Busy(ThreadPool& pool) : pool_(pool) { pool_.set_busy(true); }
    ~Busy() { pool_.set_busy(false); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    ThreadPool& pool_;
  };

  // Calls body(item, thread) once for each item in [0, items), 0 <= thread < threads(), and returns when all have
  // returned; items < 2^32. What the bodies wrote is visible to the caller. Costs about a microsecond when the workers spin.
  template <class Body>
  void parallel_for(std::size_t items, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    if (items <= 1 || workers_.empty()) {
      for (std::size_t i = 0; i < items; ++i) body(i, 0);
      return;
    }
    run_job(items, const_cast<void*>(static_cast<const void*>(&body)),
            [](void* context, std::size_t item, int thread) { (*static_cast<Plain*>(context))(item, thread); });
  }

 private:
  using Run = void (*)(void* context, std::size_t item, int thread);

  // The items [first, last) that nobody has claimed yet, as first << 32 | last. On a cache line of its own.
  struct alignas(64) Range {
    std::atomic<std::uint64_t> items{0};
  };

  void run_job(std::size_t items, void* context, Run run);
  bool run_one_item(int thread);
  // Claims the first item (or the last) of a range; nullopt if it has none.
  static std::optional<std::size_t> claim(Range& range, bool first);
  void worker_main(int thread);
  void set_busy(bool busy);

  Run run_ = nullptr;
  void* context_ = nullptr;
  std::vector<Range> ranges_;  // by thread
  alignas(64) std::atomic<std::size_t> unfinished_{0};

  alignas(64) std::atomic<bool> busy_{false};  // written under mutex_
  bool stopping_ = false;                      // under mutex_
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace stemma
