#include "cache/snapshot_plan.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stemma {
namespace {

// "10p 20b": depths with the first letter of their source.
std::string text(const std::vector<PlannedMark>& marks) {
  std::string out;
  for (const PlannedMark& mark : marks) {
    if (!out.empty()) out += ' ';
    out += std::to_string(mark.depth) + "plomfbre"[static_cast<int>(mark.source)];
  }
  return out;
}

SnapshotSettings only(Depth periodic) {
  return {.periodic_interval = periodic,
          .idle_interval = 0,
          .generation_interval = 0,
          .ladder_start = 0,
          .branch_snapshot = false,
          .message_snapshot = false,
          .repeat_snapshot = false,
          .end_snapshot = false};
}

SnapshotInput prompt(Depth hit, Depth matched, Depth length) {
  return {.hit = hit, .matched = matched, .length = length};
}

TEST(SnapshotPlan, PeriodicMarksLieAtMultiplesOfAbsoluteDepth) {
  EXPECT_EQ(text(plan_snapshots(only(10), prompt(0, 0, 35))), "10p 20p 30p");
  EXPECT_EQ(text(plan_snapshots(only(10), prompt(7, 7, 30))), "10p 20p");
  EXPECT_EQ(text(plan_snapshots(only(10), prompt(10, 10, 21))), "20p");
  EXPECT_EQ(text(plan_snapshots(only(0), prompt(0, 0, 1000))), "");
}

TEST(SnapshotPlan, IsDenseWhileMoreThanHalfOfTheMemoryIsFree) {
  SnapshotSettings settings = only(20);
  settings.idle_interval = 5;
  SnapshotInput input = prompt(0, 0, 24);
  input.free_share = 0.5;
  EXPECT_EQ(text(plan_snapshots(settings, input)), "20p");
  input.free_share = 0.51;
  EXPECT_EQ(text(plan_snapshots(settings, input)), "5p 10p 15p 20p");
  settings.idle_interval = 0;
  EXPECT_EQ(text(plan_snapshots(settings, input)), "20p");
}

TEST(SnapshotPlan, MarksTheLastDepthOfAnExactRepeat) {
  SnapshotSettings settings = only(0);
  settings.repeat_snapshot = true;
  EXPECT_EQ(text(plan_snapshots(settings, prompt(0, 0, 30))), "29r");
  EXPECT_EQ(text(plan_snapshots(settings, prompt(29, 29, 30))), "");
  EXPECT_EQ(text(plan_snapshots(settings, prompt(0, 0, 1))), "");
}

TEST(SnapshotPlan, MarksWhereThePromptLeavesTheTree) {
  SnapshotSettings settings = only(0);
  settings.branch_snapshot = true;
  EXPECT_EQ(text(plan_snapshots(settings, prompt(4, 17, 30))), "17b");
  EXPECT_EQ(text(plan_snapshots(settings, prompt(17, 17, 30))), "") << "there is one already";
  EXPECT_EQ(text(plan_snapshots(settings, prompt(4, 30, 30))), "") << "it leaves it nowhere";
}

TEST(SnapshotPlan, MarksMessageEndsInsideWhatIsComputed) {
  SnapshotSettings settings = only(0);
  settings.message_snapshot = true;
  const std::vector<Depth> ends{3, 8, 20, 30};
  SnapshotInput input = prompt(5, 5, 30);
  input.message_ends = ends;
  EXPECT_EQ(text(plan_snapshots(settings, input)), "8m 20m");
}

TEST(SnapshotPlan, OneMarkADepthWithTheMostValuableSource) {
  const std::vector<Depth> ends{10, 20, 29};
  SnapshotSettings settings;
  settings.periodic_interval = 10;
  SnapshotInput input = prompt(0, 20, 30);
  input.message_ends = ends;
  EXPECT_EQ(text(plan_snapshots(settings, input)), "10m 20b 29r");
}

TEST(SnapshotPlan, LeavesOutDepthsThatHaveACheckpoint) {
  const std::vector<Depth> existing{10, 29};
  SnapshotSettings settings;
  settings.periodic_interval = 10;
  SnapshotInput input = prompt(0, 30, 30);
  input.existing = existing;
  EXPECT_EQ(text(plan_snapshots(settings, input)), "20p");
}

TEST(SnapshotPlan, TheLargestDepthDoesNotOverflow) {
  constexpr Depth kMost = 2147483647;
  EXPECT_EQ(text(plan_snapshots(only(kMost - 1), prompt(5, 5, kMost))),
            std::to_string(kMost - 1) + "p");
}

}  // namespace
}  // namespace stemma
