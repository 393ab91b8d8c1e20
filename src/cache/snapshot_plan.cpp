// The snapshot plan: gathers every source's depths and keeps the most valuable
// source of each depth.

#include "cache/snapshot_plan.h"

#include <algorithm>
#include <bit>

namespace stemma {

std::string_view name_of(MarkSource source) {
  switch (source) {
    case MarkSource::periodic:
      return "periodic";
    case MarkSource::ladder:
      return "ladder";
    case MarkSource::offset:
      return "offset";
    case MarkSource::message_end:
      return "message_end";
    case MarkSource::fork:
      return "fork";
    case MarkSource::branch:
      return "branch";
    case MarkSource::repeat:
      return "repeat";
    case MarkSource::end:
      return "end";
  }
  return "";
}

bool more_valuable(const PlannedMark& a, const PlannedMark& b) {
  if (a.source != b.source) return a.source > b.source;
  if (a.source == MarkSource::periodic || a.source == MarkSource::ladder) {
    // Multiples of a large power of two first: what is left of a dense row is
    // an even one.
    const int round_a = std::countr_zero(static_cast<std::uint32_t>(a.depth));
    const int round_b = std::countr_zero(static_cast<std::uint32_t>(b.depth));
    if (round_a != round_b) return round_a > round_b;
  }
  return a.depth > b.depth;
}

std::vector<PlannedMark> plan_snapshots(const SnapshotSettings& settings,
                                        const SnapshotInput& input) {
  std::vector<PlannedMark> marks;
  const auto add = [&](std::int64_t depth, MarkSource source, Depth last) {
    depth = depth / input.grid * input.grid;
    if (depth > input.hit && depth <= last) marks.push_back({static_cast<Depth>(depth), source});
  };
  const Depth inside = input.length - 1;

  const bool idle = input.free_share > 0.5 && settings.idle_interval > 0;
  if (const Depth interval = idle ? settings.idle_interval : settings.periodic_interval;
      interval > 0) {
    // In 64 bits: the next multiple may lie above the largest Depth.
    for (std::int64_t depth = std::int64_t{input.hit / interval + 1} * interval;
         depth < input.length; depth += interval) {
      add(depth, MarkSource::periodic, inside);
    }
  }
  if (settings.ladder_start > 0) {
    for (std::int64_t depth = settings.ladder_start; depth < input.length; depth *= 2)
      add(depth, MarkSource::ladder, inside);
  }
  for (const Depth offset : settings.offsets_from_start)
    add(offset, MarkSource::offset, input.length);
  for (const Depth offset : settings.offsets_from_end)
    add(std::int64_t{input.length} - offset, MarkSource::offset, input.length);
  if (settings.message_snapshot) {
    for (const Depth end : input.message_ends) add(end, MarkSource::message_end, inside);
  }
  if (settings.branch_snapshot) {
    for (const Depth fork : input.forks) add(fork, MarkSource::fork, inside);
    add(input.matched, MarkSource::branch, inside);
  }
  if (settings.repeat_snapshot) add(inside, MarkSource::repeat, inside);

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
  if (marks.size() > input.most) {
    std::nth_element(marks.begin(), marks.begin() + static_cast<std::ptrdiff_t>(input.most),
                     marks.end(), more_valuable);
    marks.resize(input.most);
    std::sort(marks.begin(), marks.end(),
              [](const PlannedMark& a, const PlannedMark& b) { return a.depth < b.depth; });
  }
  return marks;
}

}  // namespace stemma
