// An engine whose device hangs says so, and goes on where it stood.

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "compute/cpu/cpu_device.h"
#include "support/blocking_device.h"
#include "support/captured_log.h"
#include "support/engine_harness.h"
#include "support/test_models.h"

namespace stemma::test {
namespace {

TEST(StuckStepTest, AStepThatStandsStillIsInTheStatisticsUntilItGoesOn) {
  const CapturedLog log;
  LogitsBook book;
  StepGate gate;
  EngineHarness harness(tiny_model("qwen35", "q8_0"), {.context_length = 512, .watchdog_seconds = 0.001}, book,
                        std::make_unique<BlockingDevice>(make_cpu_device({.threads = 1}), gate));
  const Answer before = harness.generate({1, 2, 3, 4, 5}, 4);

  gate.close();
  Pending pending = harness.start(greedy({9, 8, 7}, 4));
  gate.wait_for_a_step();
  std::optional<StuckStep> stuck;
  while (!(stuck = harness.engine().stats().stuck)) std::this_thread::yield();
  EXPECT_EQ(stuck->load.sequences, 1u);
  EXPECT_EQ(stuck->load.tokens, 3u);
  EXPECT_GT(stuck->load.number, 4u);
  gate.open();
  EXPECT_EQ(pending.wait().tokens.size(), 4u);
  while (harness.engine().stats().stuck) std::this_thread::yield();
  EXPECT_EQ(harness.generate({1, 2, 3, 4, 5}, 4).tokens, before.tokens);
  EXPECT_TRUE(book.complaints().empty());
}

TEST(StuckStepTest, ItsLimitIsANumber) {
  LogitsBook book;
  EngineHarness harness(tiny_model("qwen35", "q8_0"), {.context_length = 64}, book);
  const auto device = make_cpu_device({.threads = 1});
  for (const double limit : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto engine = Engine::create({.context_length = 64, .watchdog_seconds = limit}, harness.model(), *device,
                                       harness.tokenizer());
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code(), ErrorCode::engine_bad_config);
  }
}

}  // namespace
}  // namespace stemma::test
