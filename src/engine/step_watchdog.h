#pragma once
// Reports a step of the engine that takes too long: a device that hangs, or a machine that has come to a standstill.
//
// A thread of its own looks once a limit, and only while steps run: while the engine is idle it sleeps without a timer. A step
// costs two short locks. Whoever asks whether the engine is well asks stuck().

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "core/result.h"

namespace stemma {

// What a step computes.
struct StepLoad {
  std::uint64_t number;   // of the step, from 1
  std::size_t sequences;
  std::size_t tokens;
};

// A step that has run for longer than the limit and still runs.
struct StuckStep {
  StepLoad load;
  double seconds;  // so far
};

// `engine_step_stuck`, with what was in the step.
Error stuck_step_error(const StuckStep& step);

// begin() and end() alternate on one thread; stuck() may be called from any.
class StepWatchdog {
 public:
  // `limit_seconds`: 0 = no step is ever stuck, and there is no thread.
  explicit StepWatchdog(double limit_seconds);
  ~StepWatchdog();
  StepWatchdog(const StepWatchdog&) = delete;
  StepWatchdog& operator=(const StepWatchdog&) = delete;

  // One step under watch, as long as it lives.
  class Watch {
   public:
    Watch(StepWatchdog& owner, const StepLoad& load) : owner_(owner) { owner_.begin(load); }
    ~Watch() { owner_.end(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    StepWatchdog& owner_;
  };

  // The step that is stuck now. It logs an error when it is found and a warning when it ends after all. O(1).
  std::optional<StuckStep> stuck() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    StepLoad load;
    Clock::time_point since;
    double seconds() const { return std::chrono::duration<double>(Clock::now() - since).count(); }
  };

  void begin(const StepLoad& load);
  void end();
  void watch();
  // Says that the running step is stuck, and waits for its end.
  void report(std::unique_lock<std::mutex>& lock);

  const Clock::duration limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Running> running_;
  bool resting_ = false;   // the thread waits for a step to begin
  bool reported_ = false;  // the running step is stuck
  bool stop_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace stemma
