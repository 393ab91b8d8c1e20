#include "replay/trace_builder.h"

#include <algorithm>
#include <utility>

namespace stemma::replay {

namespace {

std::size_t common_blocks(const std::vector<BlockId>& a, const std::vector<BlockId>& b) {
  const auto limit = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + limit, b.begin()).first -
                                  a.begin());
}

// The last of which may be partly filled.
std::uint32_t prompt_block_count(Depth in, Depth block_tokens) {
  return path_blocks({in, 0, 0, 0, 0, 0}, block_tokens);
}

}  // namespace

TraceBuilder::TraceBuilder(std::string name, std::string_view format, Depth block_tokens,
                           bool timed)
    : trace_{.name = std::move(name),
             .format = format,
             .note = {},
             .block_tokens = block_tokens,
             .timed = timed,
             .sessions = {},
             .chains = {},
             .requests = {},
             .runs = {},
             .block_count = 0} {}

BlockId TraceBuilder::block(std::uint64_t scope, std::uint64_t key) {
  const auto [place, is_new] = known_.try_emplace({scope, key}, trace_.block_count);
  if (is_new) ++trace_.block_count;
  return place->second;
}

void TraceBuilder::begin_session(double start) {
  trace_.sessions.push_back({start, static_cast<std::uint32_t>(trace_.chains.size()), 0});
}

// The blocks behind those that the format gave come from the next path, if that goes on from this
// prompt: so paths are made from the last to the first.
std::vector<BlockId> TraceBuilder::path_of(const RawRequest& request,
                                           const std::vector<BlockId>* next_path,
                                           std::size_t next_blocks) {
  const TraceRequest sizes{request.in, request.out, 0, 0, 0, 0};
  const std::size_t blocks = path_blocks(sizes, trace_.block_tokens);
  const auto whole = static_cast<std::size_t>(request.in / trace_.block_tokens);
  std::vector<BlockId> path(request.blocks.begin(),
                            request.blocks.begin() + static_cast<std::ptrdiff_t>(
                                                         std::min(blocks, request.blocks.size())));
  const auto prompt_blocks =
      static_cast<std::size_t>(prompt_block_count(request.in, trace_.block_tokens));
  if (request.blocks.size() > prompt_blocks) return path;  // the answer is known

  const bool goes_on = next_path && next_blocks > whole &&
                       std::equal(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(whole),
                                  next_path->begin());
  if (goes_on) path.resize(whole);
  while (path.size() < blocks) {
    const std::size_t i = path.size();
    path.push_back(goes_on && i < next_blocks ? (*next_path)[i] : own_block());
  }
  return path;
}

std::uint32_t TraceBuilder::add_chain(std::vector<RawRequest> requests,
                                      std::optional<Launch> launch) {
  const auto first = static_cast<std::uint32_t>(trace_.requests.size());
  std::vector<std::vector<BlockId>> paths(requests.size());
  for (std::size_t i = requests.size(); i-- > 0;) {
    const bool last = i + 1 == requests.size();
    paths[i] = path_of(requests[i], last ? nullptr : &paths[i + 1],
                       last ? 0 : prompt_block_count(requests[i + 1].in, trace_.block_tokens));
  }

  const std::vector<BlockId> none;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::vector<BlockId>& path = paths[i];
    const std::size_t keep = common_blocks(i == 0 ? none : paths[i - 1], path);
    const auto first_run = static_cast<std::uint32_t>(trace_.runs.size());
    for (std::size_t b = keep; b < path.size(); ++b) {
      const bool follows = trace_.runs.size() > first_run &&
                           trace_.runs.back().first + trace_.runs.back().count == path[b];
      if (follows) {
        ++trace_.runs.back().count;
      } else {
        trace_.runs.push_back({path[b], 1});
      }
    }
    trace_.requests.push_back({requests[i].in, requests[i].out, requests[i].offset,
                               static_cast<std::uint32_t>(keep), first_run,
                               static_cast<std::uint32_t>(trace_.runs.size()) - first_run});
  }
  trace_.chains.push_back({first, static_cast<std::uint32_t>(requests.size()), launch});
  ++trace_.sessions.back().chain_count;
  return first;
}

Trace TraceBuilder::finish() && { return std::move(trace_); }

}  // namespace stemma::replay
