#pragma once
// What a model's cache costs, and how a budget for it is best spent on a trace.

#include <optional>
#include <string>
#include <vector>

#include "replay/sweep.h"

namespace stemma::replay {

// How many sessions of a length a budget holds: their KV, and a checkpoint at the end of each.
struct Holding {
  Depth length;     // tokens
  double sessions;  // by KV and one checkpoint each
};

// At 1k, 4k, 16k, 64k and 256k tokens.
std::vector<Holding> holdings(const ModelCosts& model, StateCodec codec, double budget_bytes);

// The settings that a plan tries, and what they reach.
struct Trial {
  StateCodec codec;
  std::optional<double> state_share;  // nullopt: one pool
  std::string snapshots;              // in words
  SnapshotSettings settings;
  ReplayResult result;
};

struct Advice {
  std::string trace;
  double budget_bytes;
  double infinite_hit;
  std::vector<Trial> trials;  // the best first
};

// Replays the trace in its own order with an eviction policy: first every codec with every
// split, then the settings for snapshots with the best of them. O(20 replays). Errors: those of
// Runner.
Result<Advice> advise(const Trace& trace, const ModelCosts& model, double budget_bytes,
                      const std::string& policy, const LoadConfig& load,
                      const SweepProgress& progress);

// Sizes, break-even lengths and, where a budget is given (not 0), what it holds.
std::string plan_text(const ModelCosts& model, double budget_bytes);
// The recommendation and its reason, and all trials.
std::string advice_text(const Advice& advice, const ModelCosts& model);

}  // namespace stemma::replay
