// stemma plan: what a model's cache costs, what a budget holds, and how to spend it on a trace.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "cli/command.h"
#include "cli/replay_inputs.h"
#include "replay/auto_budgets.h"
#include "replay/plan.h"

namespace stemma {

namespace {

replay::SweepProgress progress_on_terminal() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](std::size_t done, std::size_t all) {
    std::fprintf(stderr, "\rtrial %zu/%zu%s", done, all, done == all ? "\r\033[K" : "");
  };
}

Result<replay::LoadConfig> load_of(const PlanOptions& options) {
  replay::LoadConfig load;
  load.concurrency = options.concurrency;
  STEMMA_TRY(load.profile, replay::find_service_profile(options.profile));
  return load;
}

// Of several budgets that auto_budgets finds, the one at which splits matter most: lru is at about
// 55 %.
Result<double> budget_for(const replay::Trace& trace, const replay::ModelCosts& model,
                          const replay::LoadConfig& load) {
  replay::SweepConfig sweep;
  sweep.load = load;
  STEMMA_TRY(const auto chosen, choose_budgets(trace, model, sweep));
  const replay::ChosenBudget& middle = chosen[std::min<std::size_t>(1, chosen.size() - 1)];
  std::cout << "no --memory: taking " << display_bytes(middle.bytes) << ", where lru reaches "
            << static_cast<int>(100 * middle.reached + 0.5) << " % of an infinite cache\n";
  return middle.bytes;
}

}  // namespace

Status plan_command(const CommandInput& input) {
  const PlanOptions& options = input.resolved.options.plan;
  STEMMA_TRY(const replay::ModelCosts model, read_model_costs(options.model));
  const auto memory = static_cast<double>(options.memory_bytes);
  std::cout << plan_text(model, memory);
  if (options.traces.empty()) return {};
  STEMMA_TRY(const replay::LoadConfig load, load_of(options));
  for (const std::string& path : options.traces) {
    STEMMA_TRY(const replay::Trace trace, read_trace(path, options.sessions));
    std::cout << '\n';
    double budget = memory;
    if (budget == 0) {
      STEMMA_TRY(budget, budget_for(trace, model, load));
    }
    STEMMA_TRY(const replay::Advice advice,
               advise(trace, model, budget, options.policy, load, progress_on_terminal()));
    std::cout << advice_text(advice, model) << std::flush;
  }
  return {};
}

}  // namespace stemma
