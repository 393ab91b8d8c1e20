#include "replay/future.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "replay/systems.h"

namespace stemma::replay {

namespace {

// Writes down who was admitted when.
class AdmissionLog : public CacheModel {
 public:
  explicit AdmissionLog(CacheModel& cache) : cache_(cache) {}
  std::variant<std::unique_ptr<RunningRequest>, WaitReason> acquire(const Demand& demand) override {
    auto outcome = cache_.acquire(demand);
    if (!std::holds_alternative<WaitReason>(outcome)) order.push_back(demand.request);
    return outcome;
  }
  bool fits(Depth units) const override { return cache_.fits(units); }
  CacheModelStats stats() const override { return cache_.stats(); }

  std::vector<std::uint32_t> order;

 private:
  CacheModel& cache_;
};

constexpr Turn kNever = std::numeric_limits<Turn>::max();

}  // namespace

Result<Future> Future::foresee(const Trace& trace, const PathIndex& index, const ModelCosts& model,
                               const DriverConfig& config) {
  STEMMA_TRY(const auto unlimited, make_unlimited(trace, config.unit));
  AdmissionLog log(*unlimited);
  replay(trace, config, model, log);

  Future future;
  future.order_ = std::move(log.order);
  const std::size_t requests = trace.requests.size();
  future.turns_.assign(requests, kNever);
  future.stops_.assign(requests, 0);
  std::vector<NodeIndex> path;

  // Forwards: what was there before.
  std::vector<bool> seen(index.size(), false);
  for (Turn turn = 0; turn < future.order_.size(); ++turn) {
    const std::uint32_t request = future.order_[turn];
    future.turns_[request] = turn;
    index.path(request, path);
    const Depth prompt = config.unit.units(trace.requests[request].in);
    Depth stop = 0;
    while (stop < prompt - 1 && seen[path[static_cast<std::size_t>(stop)]]) ++stop;
    future.stops_[request] = stop;
    if (stop > 0) future.stop_nodes_.push_back({path[static_cast<std::size_t>(stop - 1)], turn});
    for (const NodeIndex node : path) seen[node] = true;
  }
  std::sort(future.stop_nodes_.begin(), future.stop_nodes_.end());
  for (const StopsAt& stop : future.stop_nodes_) future.stop_turns_.push_back(stop.turn);

  // Backwards: when it is wanted next. The shallow part of a path is never wanted later than the
  // deep one.
  std::vector<Turn> next(index.size(), kNever);
  std::vector<std::vector<Step>> steps(requests);
  for (Turn turn = static_cast<Turn>(future.order_.size()); turn-- > 0;) {
    const std::uint32_t request = future.order_[turn];
    index.path(request, path);
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Turn use = next[path[i]];
      if (use == kNever) break;
      if (steps[request].empty() || steps[request].back().turn != use)
        steps[request].push_back({0, use});
      steps[request].back().end = static_cast<Depth>(i + 1);
    }
    for (Depth d = 0; d < future.stops_[request]; ++d)
      next[path[static_cast<std::size_t>(d)]] = turn;
  }
  for (const std::vector<Step>& of_request : steps) {
    future.first_step_.push_back(static_cast<std::uint32_t>(future.steps_.size()));
    future.steps_.insert(future.steps_.end(), of_request.begin(), of_request.end());
  }
  future.first_step_.push_back(static_cast<std::uint32_t>(future.steps_.size()));
  return future;
}

std::optional<Turn> Future::next_use(std::uint32_t request, Depth depth) const {
  const auto begin = steps_.begin() + first_step_[request];
  const auto end = steps_.begin() + first_step_[request + 1];
  const auto step =
      std::lower_bound(begin, end, depth, [](const Step& s, Depth d) { return s.end < d; });
  if (step == end) return std::nullopt;
  return step->turn;
}

std::span<const Turn> Future::stops_at(NodeIndex node) const {
  const auto [begin, end] =
      std::equal_range(stop_nodes_.begin(), stop_nodes_.end(), StopsAt{node, 0},
                       [](const StopsAt& a, const StopsAt& b) { return a.node < b.node; });
  return std::span(stop_turns_)
      .subspan(static_cast<std::size_t>(begin - stop_nodes_.begin()),
               static_cast<std::size_t>(end - begin));
}

}  // namespace stemma::replay
