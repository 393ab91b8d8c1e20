// Which steps the watchdog calls stuck, and what it says about them.

#include "engine/step_watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/captured_log.h"

namespace stemma {
namespace {

using test::CapturedLog;
using ::testing::HasSubstr;

constexpr double kNever = 1e6;
constexpr double kAtOnce = 0.001;

StuckStep wait_until_stuck(const StepWatchdog& watchdog) {
  for (;;) {
    if (const auto stuck = watchdog.stuck()) return *stuck;
    std::this_thread::yield();
  }
}

TEST(StepWatchdog, AStepBeyondTheLimitIsStuckUntilItEnds) {
  const CapturedLog log;
  StepWatchdog watchdog(kAtOnce);
  EXPECT_FALSE(watchdog.stuck());
  for (std::uint64_t number : {7u, 8u}) {
    const StepWatchdog::Watch watch(watchdog, {.number = number, .sequences = 3, .tokens = 500});
    const StuckStep stuck = wait_until_stuck(watchdog);
    EXPECT_EQ(stuck.load.number, number);
    EXPECT_EQ(stuck.load.sequences, 3u);
    EXPECT_EQ(stuck.load.tokens, 500u);
    EXPECT_GE(stuck.seconds, kAtOnce);
  }
  EXPECT_FALSE(watchdog.stuck());
}

TEST(StepWatchdog, StepsWithinTheLimitAreNot) {
  StepWatchdog watchdog(kNever);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const StepWatchdog::Watch watch(watchdog, {i, 1, 1});
    EXPECT_FALSE(watchdog.stuck());
  }
}

TEST(StepWatchdog, WithoutALimitNothingIs) {
  StepWatchdog watchdog(0);
  const StepWatchdog::Watch watch(watchdog, {1, 1, 1});
  EXPECT_FALSE(watchdog.stuck());
}

TEST(StepWatchdog, TheLogSaysWhatIsStuckAndWhenItEnds) {
  const CapturedLog log;
  {
    StepWatchdog watchdog(kAtOnce);
    const StepWatchdog::Watch watch(watchdog, {.number = 12, .sequences = 3, .tokens = 500});
    wait_until_stuck(watchdog);
  }
  EXPECT_THAT(log.text(), HasSubstr("[engine_step_stuck] step 12 with 500 tokens of 3 sequences has run for "));
  EXPECT_THAT(log.text(), HasSubstr("step 12 ended after "));
}

TEST(StepWatchdog, ItEndsWhileAStepRuns) {
  const CapturedLog log;
  for (const double limit : {kAtOnce, kNever}) {
    auto watchdog = std::make_unique<StepWatchdog>(limit);
    { const StepWatchdog::Watch watch(*watchdog, {1, 1, 1}); }
    watchdog.reset();
  }
}

// For ThreadSanitizer: steps about as long as the limit, and others who ask.
TEST(StepWatchdog, ManyMayAskAtOnce) {
  const CapturedLog log;
  StepWatchdog watchdog(1e-5);
  std::atomic<bool> done{false};
  std::vector<std::thread> askers;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      while (!done) {
        const auto stuck = watchdog.stuck();
        EXPECT_LE(stuck ? stuck->load.number : 0, 2000u);
      }
    });
  }
  for (std::uint64_t number = 1; number <= 2000; ++number) {
    const StepWatchdog::Watch watch(watchdog, {number, 1, 1});
    if (number % 3 == 0) std::this_thread::yield();
  }
  done = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_FALSE(watchdog.stuck());
}

}  // namespace
}  // namespace stemma
