#include "engine/step_watchdog.h"

#include <utility>

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

namespace stemma {

Error stuck_step_error(const StuckStep& step) {
  return make_error(ErrorCode::engine_step_stuck, {{"number", std::to_string(step.load.number)},
                                                   {"sequences", std::to_string(step.load.sequences)},
                                                   {"tokens", std::to_string(step.load.tokens)},
                                                   {"seconds", fmt::format("{:.3g}", step.seconds)}});
}

StepWatchdog::StepWatchdog(double limit_seconds)
    : limit_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_seconds))) {
  if (limit_ > Clock::duration::zero()) thread_ = std::thread([this] { watch(); });
}

StepWatchdog::~StepWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void StepWatchdog::begin(const StepLoad& load) {
  const std::lock_guard lock(mutex_);
  running_ = {load, Clock::now()};
  if (!resting_) return;
  resting_ = false;
  changed_.notify_one();
}

void StepWatchdog::end() {
  std::unique_lock lock(mutex_);
  const Running ended = *std::exchange(running_, std::nullopt);
  if (!std::exchange(reported_, false)) return;
  changed_.notify_one();
  lock.unlock();
  spdlog::warn("step {} ended after {:.3g} seconds", ended.load.number, ended.seconds());
}

std::optional<StuckStep> StepWatchdog::stuck() const {
  const std::lock_guard lock(mutex_);
  if (!reported_) return std::nullopt;
  return StuckStep{running_->load, running_->seconds()};
}

// Steps come and go while it sleeps; when it wakes it looks at the one that runs, whose time is up later. So steps wake it
// only from a rest, and it rests only when it found none.
void StepWatchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    resting_ = !running_;
    changed_.wait(lock, [this] { return stop_ || !resting_; });
    auto wake = Clock::now() + limit_;
    do {
      changed_.wait_until(lock, wake, [this] { return stop_; });
      if (stop_ || !running_) break;
      wake = running_->since + limit_;
      if (Clock::now() < wake) continue;
      report(lock);
    } while (!stop_);
  }
}

void StepWatchdog::report(std::unique_lock<std::mutex>& lock) {
  reported_ = true;
  const Error error = stuck_step_error({running_->load, running_->seconds()});
  lock.unlock();  // writing may take its time
  spdlog::error("{}", error.to_string());
  lock.lock();
  changed_.wait(lock, [this] { return stop_ || !reported_; });
}

}  // namespace stemma
