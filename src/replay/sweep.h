#pragma once
// Many replays: every system at every budget over the same orders of sessions, so that differences
// between systems are paired.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/runner.h"

namespace stemma::replay {

struct SweepConfig {
  LoadConfig load;
  std::vector<double> budgets;  // bytes
  std::vector<std::string> systems;
  int orders = 1;
  CacheSettings cache;  // but for budget_bytes and eviction
  int threads = 2;      // replays at a time
};

struct SystemResult {
  std::string system;
  std::vector<ReplayResult> orders;  // by order
};

struct BudgetResult {
  double budget_bytes;
  std::vector<SystemResult> systems;
};

struct SweepResult {
  std::string trace;
  std::string trace_format;
  std::string note;
  std::size_t sessions, requests;  // of the trace, or the part of it that was run
  UnitSize unit;
  ModelCosts model;
  SweepConfig config;
  SystemResult infinite;
  std::vector<BudgetResult> budgets;
};

// Called with (done, all) from any worker, one at a time.
using SweepProgress = std::function<void(std::size_t, std::size_t)>;

// Errors: those of Runner.
Result<SweepResult> run_sweep(const Trace& trace, const ModelCosts& model,
                              const SweepConfig& config, const SweepProgress& progress);

struct Spread {
  double mean = 0;
  double sd = 0;              // of one value
  double standard_error = 0;  // of the mean
};
Spread spread(const std::vector<double>& values);

// a's hit share less b's, order by order.
struct PairedDifference {
  Spread difference;
  int wins = 0, losses = 0;  // of a
};
PairedDifference paired_hits(const SystemResult& a, const SystemResult& b);

// Null if the budget was run without it.
const SystemResult* find_system(const BudgetResult& budget, std::string_view name);

std::vector<double> hit_shares(const SystemResult& system);

}  // namespace stemma::replay
