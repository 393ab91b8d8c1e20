#include "replay/sweep.h"

#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

namespace stemma::replay {

namespace {

struct Job {
  std::string system;
  double budget_bytes;
  int order;
  ReplayResult* result;
};

}  // namespace

Result<SweepResult> run_sweep(const Trace& trace, const ModelCosts& model,
                              const SweepConfig& config, const SweepProgress& progress) {
  STEMMA_TRY(Runner runner, Runner::create(trace, model, config.load));
  SweepResult result{.trace = trace.name,
                     .trace_format = std::string(trace.format),
                     .note = std::string(trace.note),
                     .sessions = trace.sessions.size(),
                     .requests = 0,
                     .unit = runner.unit(),
                     .model = model,
                     .config = config,
                     .infinite = {"infinite", {}},
                     .budgets = {}};
  const auto orders = static_cast<std::size_t>(config.orders);
  result.infinite.orders.resize(orders);
  for (const double budget : config.budgets) {
    BudgetResult& row = result.budgets.emplace_back(BudgetResult{budget, {}});
    for (const std::string& system : config.systems)
      row.systems.push_back({system, std::vector<ReplayResult>(orders)});
  }

  std::vector<Job> jobs;
  for (int order = 0; order < config.orders; ++order) {
    jobs.push_back(
        {"infinite", 0, order, &result.infinite.orders[static_cast<std::size_t>(order)]});
    for (BudgetResult& budget : result.budgets) {
      for (SystemResult& system : budget.systems) {
        jobs.push_back({system.system, budget.budget_bytes, order,
                        &system.orders[static_cast<std::size_t>(order)]});
      }
    }
  }

  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t done = 0;                // guarded by mutex
  std::optional<Error> first_failure;  // guarded by mutex
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      const Job& job = jobs[i];
      CacheSettings settings = config.cache;
      settings.budget_bytes = job.budget_bytes;
      auto run = runner.run(job.system, settings, job.order);
      if (!run) {
        const std::scoped_lock lock(mutex);
        first_failure = std::move(run).error();
        next = jobs.size();
        return;
      }
      *job.result = *std::move(run);
      const std::scoped_lock lock(mutex);
      if (progress) progress(++done, jobs.size());
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 1; i < config.threads; ++i) workers.emplace_back(work);
    work();
  }
  if (first_failure) return tl::unexpected<Error>(*first_failure);
  result.requests = result.infinite.orders.front().requests;
  return result;
}

Spread spread(const std::vector<double>& values) {
  Spread result;
  if (values.empty()) return result;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / n;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.sd = std::sqrt(squares / (n - 1));
  result.standard_error = result.sd / std::sqrt(n);
  return result;
}

const SystemResult* find_system(const BudgetResult& budget, std::string_view name) {
  for (const SystemResult& system : budget.systems) {
    if (system.system == name) return &system;
  }
  return nullptr;
}

std::vector<double> hit_shares(const SystemResult& system) {
  std::vector<double> shares;
  for (const ReplayResult& order : system.orders) shares.push_back(order.hit_share());
  return shares;
}

PairedDifference paired_hits(const SystemResult& a, const SystemResult& b) {
  PairedDifference result;
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.orders.size(); ++i) {
    const double difference = a.orders[i].hit_share() - b.orders[i].hit_share();
    differences.push_back(difference);
    result.wins += difference > 0;
    result.losses += difference < 0;
  }
  result.difference = spread(differences);
  return result;
}

}  // namespace stemma::replay
