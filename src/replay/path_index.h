#pragma once
// All paths of a trace as one tree of units: a number for each unit on each different path, so that
// models of caches can keep what they know of a unit in plain arrays.
//
// Node 0 is the root, at depth 0; a child's number is higher than its parent's. Built once for a
// trace and a unit size, then only read, by any number of threads. Memory: 8 bytes a node, and some
// for each request.

#include <cstdint>
#include <vector>

#include "replay/trace.h"
#include "replay/units.h"

namespace stemma::replay {

using NodeIndex = std::uint32_t;
constexpr NodeIndex kRootNode = 0;

class PathIndex {
 public:
  // O(units in which the trace's paths differ). Errors: `replay_bad_setting`: more nodes than a
  // model's arrays should have (100 million): take larger units.
  static Result<PathIndex> build(const Trace& trace, UnitSize unit);

  std::size_t requests() const { return paths_.size(); }
  std::size_t size() const { return parents_.size(); }  // nodes, the root included
  NodeIndex parent(NodeIndex node) const { return parents_[node]; }
  Depth depth(NodeIndex node) const { return depths_[node]; }

  // The nodes of a request's path, root excluded: element i is at depth i + 1. O(path).
  void path(std::uint32_t request, std::vector<NodeIndex>& nodes) const;

 private:
  struct Run {
    NodeIndex first;
    std::uint32_t count;
  };
  struct Path {
    NodeIndex base;  // the path starts with the nodes from the root to this one
    std::uint32_t first_run, run_count;
  };

  std::vector<NodeIndex> parents_{kRootNode};
  std::vector<Depth> depths_{0};
  std::vector<Path> paths_;  // by request
  std::vector<Run> runs_;
};

}  // namespace stemma::replay
