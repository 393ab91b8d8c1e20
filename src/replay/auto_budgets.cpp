#include "replay/auto_budgets.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace stemma::replay {

namespace {

constexpr double kCloseEnough = 0.01;
constexpr int kMostSteps = 9;  // of one bisection

// The share of the infinite cache's hits that lru reaches at budgets that were tried.
class LruCurve {
 public:
  static Result<LruCurve> create(const Trace& trace, const ModelCosts& model,
                                 const SweepConfig& config) {
    STEMMA_TRY(Runner runner, Runner::create(trace, model, config.load));
    STEMMA_TRY(const ReplayResult infinite, runner.run("infinite", config.cache, 0));
    return LruCurve(std::move(runner), config.cache, infinite.hit_share());
  }

  Result<double> at(double budget) {
    if (const auto known = tried_.find(budget); known != tried_.end()) return known->second;
    settings_.budget_bytes = budget;
    STEMMA_TRY(const ReplayResult lru, runner_.run("lru", settings_, 0));
    const double share = infinite_ > 0 ? lru.hit_share() / infinite_ : 1;
    tried_[budget] = share;
    return share;
  }

  // The nearest budgets tried whose shares lie at or below, and above a target.
  std::pair<double, double> around(double target) const {
    double low = tried_.begin()->first, high = tried_.rbegin()->first;
    for (const auto& [budget, share] : tried_) {
      if (share <= target) low = std::max(low, budget);
    }
    for (const auto& [budget, share] : tried_) {
      if (share > target && budget > low) {
        high = budget;
        break;
      }
    }
    return {low, high};
  }

 private:
  LruCurve(Runner runner, const CacheSettings& settings, double infinite)
      : runner_(std::move(runner)), settings_(settings), infinite_(infinite) {}

  Runner runner_;
  CacheSettings settings_;
  double infinite_;
  std::map<double, double> tried_;
};

}  // namespace

double least_budget(const Trace& trace, const ModelCosts& model, const CacheSettings& settings) {
  double longest = 0;
  for (const TraceRequest& request : trace.requests) {
    longest =
        std::max(longest, static_cast<double>(request.in) + request.out + 2.0 * trace.block_tokens);
  }
  const double pages = longest * model.kv_bytes;
  const double states = 4 * model.state(StateCodec::f32);
  if (states == 0) return pages;
  if (!settings.state_share) return 4.0 / 3 * (pages + states);
  return std::max(pages / (1 - *settings.state_share), states / *settings.state_share);
}

Result<std::vector<ChosenBudget>> choose_budgets(const Trace& trace, const ModelCosts& model,
                                                 const SweepConfig& config) {
  STEMMA_TRY(LruCurve curve, LruCurve::create(trace, model, config));
  const double least = least_budget(trace, model, config.cache);
  STEMMA_TRY(double share, curve.at(least));
  for (double most = least; share < kBudgetTargets.back() && most < 1e16;) {
    most *= 4;
    STEMMA_TRY(share, curve.at(most));
  }
  std::vector<ChosenBudget> chosen;
  for (const double target : kBudgetTargets) {
    auto [low, high] = curve.around(target);
    STEMMA_TRY(const double at_low, curve.at(low));
    ChosenBudget best{low, target, at_low};
    const auto consider = [&](double budget, double reached) {
      if (std::abs(reached - target) < std::abs(best.reached - target))
        best = {budget, target, reached};
    };
    STEMMA_TRY(const double at_high, curve.at(high));
    consider(high, at_high);
    for (int step = 0;
         step < kMostSteps && at_low < target && std::abs(best.reached - target) > kCloseEnough;
         ++step) {
      const double middle = std::round(std::sqrt(low * high));
      STEMMA_TRY(const double reached, curve.at(middle));
      consider(middle, reached);
      (reached < target ? low : high) = middle;
    }
    if (chosen.empty() || best.bytes > chosen.back().bytes) chosen.push_back(best);
  }
  return chosen;
}

}  // namespace stemma::replay
