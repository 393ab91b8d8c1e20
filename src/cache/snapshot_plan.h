#pragma once
// Where a prompt's checkpoints go. A pure function of the prompt and of the room there is; the
// settings have TensorRT-LLM's names.

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"

namespace stemma {

struct SnapshotSettings {
  // A checkpoint every so many tokens, inside prompts and during generation. 0 = none.
  Depth periodic_interval = 512;
  // The same while more than half of all state rows are free. 0 = as periodic_interval.
  Depth idle_interval = 64;
  // Where a prompt leaves a path that is already in the tree, or one being computed.
  bool branch_snapshot = true;
  // Where chat messages end.
  bool message_snapshot = true;
  // Depth n - 1 of a prompt of n tokens: serves an exact repeat.
  bool repeat_snapshot = true;
  // Depth at which a sequence's output ends: serves the next turn.
  bool end_snapshot = true;
};

// Why a mark is taken. In rising order of value: a mark may evict checkpoints only if it is
// `message_end` or above.
enum class MarkSource : std::uint8_t { periodic, message_end, branch, repeat, end };

struct PlannedMark {
  Depth depth;
  MarkSource source;
};

struct SnapshotInput {
  Depth hit;      // the state starts here; marks lie above it
  Depth matched;  // where the prompt leaves what is in the tree
  Depth length;   // of the prompt
  std::span<const Depth> message_ends;
  std::span<const Depth> existing;  // in (hit, matched], with a checkpoint already; increasing
  double free_rows;                 // share of all rows that is free, 0 to 1
};

// Marks in (hit, length), strictly increasing, none at an existing depth. Of equal depths the most
// valuable source stays. O(length / interval + marks log marks).
std::vector<PlannedMark> plan_snapshots(const SnapshotSettings& settings,
                                        const SnapshotInput& input);

}  // namespace stemma
