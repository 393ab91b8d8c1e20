#pragma once
// Which budgets to compare policies at: where all of them hit everything or nothing, they look
// alike.

#include <array>
#include <string>
#include <vector>

#include "replay/sweep.h"

namespace stemma::replay {

// Shares of the infinite cache's hits that `lru` should reach.
constexpr std::array<double, 4> kBudgetTargets = {0.35, 0.55, 0.75, 0.90};

struct ChosenBudget {
  double bytes;
  double target;   // of kBudgetTargets
  double reached;  // by `lru` in the first order
};

// A budget for each target, by bisection with `lru` on the first order of `config`; budgets that
// come out equal (where the smallest that can serve every request is already above a target) are
// given once. O(40 replays) at most. Errors: those of Runner.
Result<std::vector<ChosenBudget>> choose_budgets(const Trace& trace, const ModelCosts& model,
                                                 const SweepConfig& config);

// The bytes that the largest request of a trace needs at least to be served, with its running state
// and one checkpoint. O(requests).
double least_budget(const Trace& trace, const ModelCosts& model, const CacheSettings& settings);

}  // namespace stemma::replay
