#pragma once
// Sessions of timed traces that do not name them: a request whose prompt goes on from an earlier
// prompt belongs to its session. A prompt is gone on from once; who branches off again starts a
// session of its own.

#include <vector>

#include "replay/trace_builder.h"

namespace stemma::replay {

struct TimedRequest {
  double arrival;  // seconds
  RawRequest request;
};

// Index of the request that each one goes on from; its own index if there is none. `requests` are
// in order of arrival. O(blocks).
std::vector<std::size_t> predecessors_by_prefix(const std::vector<TimedRequest>& requests,
                                                Depth block_tokens);

// Adds the requests as sessions, chained as `predecessors` (as above) says; if a request is named
// twice, the later one starts a session.
void add_timed_sessions(TraceBuilder& builder, std::vector<TimedRequest> requests,
                        const std::vector<std::size_t>& predecessors);

}  // namespace stemma::replay
