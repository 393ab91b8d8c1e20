#pragma once
// The systems that a replay compares, by name: the cache under each of its policies, and models of
// other caches.

#include <string>
#include <vector>

#include "replay/cache_model.h"
#include "replay/memory_plan.h"

namespace stemma::replay {

// `infinite`, or an eviction policy of the cache. Errors: `replay_bad_setting`,
// `cache_unknown_policy`.
Result<std::unique_ptr<CacheModel>> make_system(const std::string& name, const Trace& trace,
                                                const ModelCosts& model, CacheSettings settings,
                                                UnitSize unit);

}  // namespace stemma::replay
