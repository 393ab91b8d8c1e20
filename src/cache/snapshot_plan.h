#pragma once
// Where a prompt's checkpoints go. A pure function of the prompt and of the
// room there is; the settings have TensorRT-LLM's names.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/ids.h"

namespace stemma {

struct SnapshotSettings {
  // A checkpoint every so many tokens inside prompts. 0 = none.
  Depth periodic_interval = 512;
  // The same while more than half of the memory is free. 0 = as
  // periodic_interval.
  Depth idle_interval = 64;
  // A checkpoint every so many tokens during generation. 0 = none.
  Depth generation_interval = 256;
  // Checkpoints of prompts at this depth and at its multiples by powers of two.
  // 0 = none.
  Depth ladder_start = 1024;
  // Checkpoints at fixed depths of each prompt, and at fixed distances before
  // its end (0 is the prompt's end).
  std::vector<Depth> offsets_from_start = {};
  std::vector<Depth> offsets_from_end = {};
  // Where a prompt leaves a path that is already in the tree, or one being
  // computed; and where others have left it before.
  bool branch_snapshot = true;
  // Where chat messages end.
  bool message_snapshot = true;
  // Depth n - 1 of a prompt of n tokens: serves an exact repeat.
  bool repeat_snapshot = true;
  // Depth at which a sequence's output ends: serves the next turn.
  bool end_snapshot = true;
  // Of all state rows, how many the checkpoints of one path may take by plan.
  double path_share = 0.5;
};

// Why a mark is taken, in rising order of value.
enum class MarkSource : std::uint8_t {
  periodic,
  ladder,
  offset,
  message_end,
  fork,    // where earlier paths part
  branch,  // where this prompt leaves the others
  repeat,
  end,
};

// "periodic", "ladder", "offset", "message_end", "fork", "branch", "repeat", "end".
std::string_view name_of(MarkSource source);

struct PlannedMark {
  Depth depth;
  MarkSource source;
};

struct SnapshotInput {
  Depth hit = 0;      // the state starts here; marks lie above it
  Depth matched = 0;  // where the prompt leaves what is in the tree
  Depth length = 0;   // of the prompt
  std::span<const Depth> message_ends = {};
  std::span<const Depth> forks = {};     // in (hit, matched], where paths part; increasing
  std::span<const Depth> existing = {};  // in (hit, matched], with a checkpoint already; increasing
  double free_share = 0;                 // of the memory for checkpoints, 0 to 1
  Depth grid = 1;                        // marks lie at multiples of it
  std::size_t most = SIZE_MAX;           // marks that the path may still take
};

// Marks in (hit, length) or at length if an offset asks for it, strictly
// increasing, none at an existing depth, on the grid (rounded down to it). Of
// equal depths the most valuable source stays; if there are more than `most`,
// periodic ones go first, those at rounder multiples last. O(length / interval
// + marks log marks).
std::vector<PlannedMark> plan_snapshots(const SnapshotSettings& settings,
                                        const SnapshotInput& input);

// The order in which marks are served when there is not room for all.
bool more_valuable(const PlannedMark& a, const PlannedMark& b);

}  // namespace stemma
