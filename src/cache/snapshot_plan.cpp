// The snapshot plan: gathers every source's depths and keeps the most valuable source of each
// depth.

#include "cache/snapshot_plan.h"

#include <algorithm>

namespace stemma {

std::vector<PlannedMark> plan_snapshots(const SnapshotSettings& settings,
                                        const SnapshotInput& input) {
  std::vector<PlannedMark> marks;
  const auto add = [&](Depth depth, MarkSource source) {
    if (depth > input.hit && depth < input.length) marks.push_back({depth, source});
  };

  const bool idle = input.free_rows > 0.5 && settings.idle_interval > 0;
  if (const Depth interval = idle ? settings.idle_interval : settings.periodic_interval;
      interval > 0) {
    // In 64 bits: the next multiple may lie above the largest Depth.
    for (std::int64_t depth = std::int64_t{input.hit / interval + 1} * interval;
         depth < input.length; depth += interval) {
      add(static_cast<Depth>(depth), MarkSource::periodic);
    }
  }
  if (settings.message_snapshot) {
    for (const Depth end : input.message_ends) add(end, MarkSource::message_end);
  }
  if (settings.branch_snapshot) add(input.matched, MarkSource::branch);
  if (settings.repeat_snapshot) add(input.length - 1, MarkSource::repeat);

  std::sort(marks.begin(), marks.end(), [](const PlannedMark& a, const PlannedMark& b) {
    return a.depth != b.depth ? a.depth < b.depth : a.source > b.source;
  });
  const auto same_depth = [](const PlannedMark& a, const PlannedMark& b) {
    return a.depth == b.depth;
  };
  marks.erase(std::unique(marks.begin(), marks.end(), same_depth), marks.end());
  std::erase_if(marks, [&](const PlannedMark& mark) {
    return std::binary_search(input.existing.begin(), input.existing.end(), mark.depth);
  });
  return marks;
}

}  // namespace stemma
