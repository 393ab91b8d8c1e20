// How many prompt tokens may join others' steps, from made-up times of steps.

#include <gtest/gtest.h>

#include "engine/step_pace.h"

namespace stemma {
namespace {

TEST(StepPace, StartsCarefully) {
  StepPace pace;
  EXPECT_EQ(pace.joinable(), StepPace::kUnknown);
  pace.took(3, 0, 0.050);
  EXPECT_EQ(pace.joinable(), StepPace::kUnknown);
}

// Steps that take 50 ms and 2 ms more for each prompt token: 25 tokens double one.
TEST(StepPace, FillsAStepToTwiceItsTime) {
  StepPace pace;
  pace.took(8, 0, 0.050);
  pace.took(8, 16, 0.050 + 16 * 0.002);
  EXPECT_NEAR(static_cast<double>(pace.joinable()), 25, 1);
}

TEST(StepPace, LearnsTheCostOfATokenFromPromptsAlone) {
  StepPace pace;
  pace.took(0, 512, 512 * 0.002);
  pace.took(8, 0, 0.050);
  EXPECT_NEAR(static_cast<double>(pace.joinable()), 25, 1);
}

TEST(StepPace, FollowsAMachineThatSlowsDown) {
  StepPace pace;
  pace.took(8, 0, 0.050);
  for (int i = 0; i < 30; ++i) pace.took(8, 16, 0.050 + 16 * 0.010);
  EXPECT_NEAR(static_cast<double>(pace.joinable()), 5, 1);
  for (int i = 0; i < 30; ++i) pace.took(8, 0, 0.200);
  EXPECT_NEAR(static_cast<double>(pace.joinable()), 20, 1);
}

TEST(StepPace, AlwaysLetsAPromptGoOn) {
  StepPace pace;
  pace.took(8, 0, 0.001);
  pace.took(8, 1, 10.0);
  EXPECT_EQ(pace.joinable(), 1u);
}

// A step that was no longer than those without prompts: nothing holds prompts back.
TEST(StepPace, LetsAllJoinWhereTheyCostNothing) {
  StepPace pace;
  pace.took(8, 0, 0.050);
  pace.took(8, 16, 0.049);
  EXPECT_GE(pace.joinable(), 100'000u);
}

}  // namespace
}  // namespace stemma
