#pragma once
// What a trace will ask for: the order in which an unlimited cache admits its requests, how deep
// each one could hit then, and when each part of a path is wanted next. The offline bound decides
// by it.
//
// Immutable once made.

#include <optional>
#include <span>
#include <vector>

#include "replay/driver.h"
#include "replay/path_index.h"

namespace stemma::replay {

// A place in the order of admissions.
using Turn = std::uint32_t;

class Future {
 public:
  // Runs the trace through an unlimited cache. O(the trace in units). Errors: those of make_system.
  static Result<Future> foresee(const Trace& trace, const PathIndex& index, const ModelCosts& model,
                                const DriverConfig& config);

  Turn turn(std::uint32_t request) const { return turns_[request]; }
  std::uint32_t request_at(Turn turn) const { return order_[turn]; }

  // Units that the request reuses where nothing is ever forgotten: where it wants a state.
  Depth stop(std::uint32_t request) const { return stops_[request]; }

  // After the turn, the next turn whose hit includes the unit at `depth` of the request's path;
  // nullopt if there is none. O(log branches of the path).
  std::optional<Turn> next_use(std::uint32_t request, Depth depth) const;

  // Turns that stop at the node, increasing.
  std::span<const Turn> stops_at(NodeIndex node) const;

 private:
  // Depths up to `end` of a path are wanted next at `turn`.
  struct Step {
    Depth end;
    Turn turn;
  };

  std::vector<Turn> turns_;                // by request
  std::vector<std::uint32_t> order_;       // by turn
  std::vector<Depth> stops_;               // by request
  std::vector<Step> steps_;                // of each request, ends increasing
  std::vector<std::uint32_t> first_step_;  // by request; one more at the end
  struct StopsAt {
    NodeIndex node;
    Turn turn;
    auto operator<=>(const StopsAt&) const = default;
  };
  std::vector<StopsAt> stop_nodes_;  // sorted
  std::vector<Turn> stop_turns_;     // those of stop_nodes_
};

}  // namespace stemma::replay
