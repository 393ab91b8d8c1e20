#include "text/child_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace stemma {
namespace {

using ::testing::HasSubstr;

constexpr TrialLimits kShort{.seconds = 1};

TEST(ChildTrial, WorkThatReturnsOrThrowsIsWithoutFault) {
  int here = 1;
  EXPECT_EQ(fault_in_child([&] { here = 2; }), "");
  EXPECT_EQ(here, 1) << "the work was done here";
  EXPECT_EQ(fault_in_child([] { throw std::runtime_error("no"); }), "");
}

TEST(ChildTrial, WorkThatEndsTheProcessIsFaulty) {
  EXPECT_THAT(fault_in_child([] { raise(SIGSEGV); }), HasSubstr("stack or memory"));
  EXPECT_THAT(fault_in_child([] { std::abort(); }), HasSubstr("signal 6"));
}

TEST(ChildTrial, WorkWithoutEndIsFaulty) {
  EXPECT_THAT(fault_in_child([] { for (std::atomic<int> i = 0;; ++i) {} }, kShort), HasSubstr("within 1 seconds"));
  EXPECT_THAT(fault_in_child([] { for (;;) pause(); }, kShort), HasSubstr("within 1 seconds"));
}

TEST(ChildTrial, OnlyTheChildSuffers) {
  for (int i = 0; i < 20; ++i) EXPECT_NE(fault_in_child([] { std::abort(); }), "");
  EXPECT_EQ(fault_in_child([] {}), "");
}

}  // namespace
}  // namespace stemma
