#pragma once
// What models of other caches have in common: a request that runs, on nodes of the trace's path
// index.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "replay/cache_model.h"
#include "replay/path_index.h"

namespace stemma::replay {

// A running request of a modelled cache. `Cache` has computed(Run&, to) and end(Run&, whole), which
// are called once for each step of a request's life; what else it keeps for a request is in
// Cache::Run, which derives from ModelledRun.
struct ModelledRun {
  std::vector<NodeIndex> path;  // of prompt and answer
  Depth prompt;
  Depth hit;
  Depth computed;
};

template <class Cache>
class ModelledRequest : public RunningRequest {
 public:
  using Run = typename Cache::Run;
  ModelledRequest(Cache& cache, Run run) : cache_(cache), run_(std::move(run)) {}
  ~ModelledRequest() override {
    if (running_) cache_.end(run_);
  }

  Depth hit() const override { return run_.hit; }
  void prefilled(Depth to) override {
    cache_.computed(run_, to);
    run_.computed = to;
  }
  bool start_answer() override { return true; }  // its room was taken at admission
  void finish() override {
    if (run_.computed >= run_.prompt) {
      cache_.computed(run_, static_cast<Depth>(run_.path.size()));
      run_.computed = static_cast<Depth>(run_.path.size());
    }
    cache_.end(run_);
    running_ = false;
  }

 private:
  Cache& cache_;
  Run run_;
  bool running_ = true;
};

// Why a lookup that matched KV up to `matched` reuses `hit` of a prompt, as the real cache counts
// it.
inline void count_limit(CacheModelStats& stats, Depth prompt, Depth matched, Depth hit) {
  ReuseLimit limit = ReuseLimit::no_such_prefix;
  if (hit == prompt - 1) {
    limit = ReuseLimit::whole_prompt;
  } else if (hit < std::min(matched, prompt - 1)) {
    limit = ReuseLimit::state_not_stored;
  }
  ++stats.limits[static_cast<std::size_t>(limit)];
}

}  // namespace stemma::replay
