#include "replay/session_chains.h"

#include <unordered_map>
#include <utility>

namespace stemma::replay {

std::vector<std::size_t> predecessors_by_prefix(const std::vector<TimedRequest>& requests,
                                                Depth block_tokens) {
  // By the last whole block of a prompt that nobody has gone on from: the request. A block's id
  // stands for the whole path to it, so one look is enough.
  std::unordered_map<BlockId, std::size_t> ends;
  std::vector<std::size_t> predecessors(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const RawRequest& request = requests[i].request;
    const auto whole = static_cast<std::size_t>(request.in / block_tokens);
    predecessors[i] = i;
    for (std::size_t b = whole; b-- > 0;) {
      const auto end = ends.find(request.blocks[b]);
      if (end == ends.end()) continue;
      const RawRequest& earlier = requests[end->second].request;
      if (request.in < earlier.in + earlier.out) continue;  // does not have the earlier answer
      predecessors[i] = end->second;
      ends.erase(end);
      break;
    }
    if (whole > 0) ends[request.blocks[whole - 1]] = i;
  }
  return predecessors;
}

void add_timed_sessions(TraceBuilder& builder, std::vector<TimedRequest> requests,
                        const std::vector<std::size_t>& predecessors) {
  std::vector<std::size_t> successor(requests.size(), requests.size());
  std::vector<bool> starts(requests.size(), true);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t before = predecessors[i];
    if (before == i || successor[before] != requests.size()) continue;
    successor[before] = i;
    starts[i] = false;
  }
  const double begin = requests.empty() ? 0 : requests.front().arrival;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!starts[i]) continue;
    const double start = requests[i].arrival;
    builder.begin_session(start - begin);
    std::vector<RawRequest> chain;
    for (std::size_t at = i; at != requests.size(); at = successor[at]) {
      chain.push_back(std::move(requests[at].request));
      chain.back().offset = requests[at].arrival - start;
    }
    builder.add_chain(std::move(chain), std::nullopt);
  }
}

}  // namespace stemma::replay
