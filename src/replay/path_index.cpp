#include "replay/path_index.h"

#include <algorithm>
#include <unordered_map>

namespace stemma::replay {

Result<PathIndex> PathIndex::build(const Trace& trace, UnitSize unit) {
  constexpr std::size_t kMostNodes = 100'000'000;
  PathIndex index;
  index.paths_.resize(trace.requests.size());
  std::unordered_map<std::uint64_t, NodeIndex> children;  // by parent and unit
  for (const Chain& chain : trace.chains) {
    PathCursor cursor;
    std::vector<NodeIndex> nodes;
    std::vector<Token> before;
    for (std::uint32_t i = 0; i < chain.request_count; ++i) {
      const std::uint32_t request = chain.first_request + i;
      cursor.advance(trace, request, unit);
      const auto path = cursor.demand().path;
      const auto limit = static_cast<std::ptrdiff_t>(std::min(before.size(), path.size()));
      const auto same = static_cast<std::size_t>(
          std::mismatch(before.begin(), before.begin() + limit, path.begin()).first -
          before.begin());
      nodes.resize(same);
      Path& made = index.paths_[request];
      made = {same == 0 ? kRootNode : nodes.back(), static_cast<std::uint32_t>(index.runs_.size()),
              0};
      for (std::size_t at = same; at < path.size(); ++at) {
        const NodeIndex parent = at == 0 ? kRootNode : nodes.back();
        const std::uint64_t key =
            std::uint64_t{parent} << 32 | static_cast<std::uint32_t>(path[at]);
        const auto [place, is_new] =
            children.try_emplace(key, static_cast<NodeIndex>(index.parents_.size()));
        if (is_new) {
          index.parents_.push_back(parent);
          index.depths_.push_back(static_cast<Depth>(at + 1));
        }
        const NodeIndex node = place->second;
        nodes.push_back(node);
        if (made.run_count > 0 && index.runs_.back().first + index.runs_.back().count == node) {
          ++index.runs_.back().count;
        } else {
          index.runs_.push_back({node, 1});
          ++made.run_count;
        }
      }
      before.assign(path.begin(), path.end());
      if (index.parents_.size() > kMostNodes) {
        return fail(
            ErrorCode::replay_bad_setting,
            {{"reason", trace.name + " has more than 100 million units of " +
                            std::to_string(unit.tokens) +
                            " tokens, too many for a model of another cache: take larger units"}});
      }
    }
  }
  return index;
}

void PathIndex::path(std::uint32_t request, std::vector<NodeIndex>& nodes) const {
  const Path& path = paths_[request];
  nodes.clear();
  for (NodeIndex node = path.base; node != kRootNode; node = parents_[node]) nodes.push_back(node);
  std::reverse(nodes.begin(), nodes.end());
  for (std::uint32_t i = 0; i < path.run_count; ++i) {
    const Run& run = runs_[path.first_run + i];
    for (std::uint32_t n = 0; n < run.count; ++n) nodes.push_back(run.first + n);
  }
}

}  // namespace stemma::replay
