#pragma once
// A cache as SGLang has it for hybrid models (MambaRadixCache, extra_buffer).
//
//  - A tree of KV, and states at some of its nodes; two pools, two lists of least recent use. A hit
//  is the deepest state
//    on the matched path.
//  - One state a prefill chunk, at its end, rounded down to the kernels' grid of 64 tokens; where a
//  prompt leaves the tree, one more
//    at that depth, rounded down. During an answer the state is tracked every 256 tokens; what ends
//    up in the tree is the last one tracked, and KV behind it is given up with the request.
//  - Evicting KV takes whole nodes at the ends of paths, with their states. Evicting a state inside
//  the tree leaves its
//    KV; at the end of a path it takes the KV down to the next state or fork along.
//  - A running request has two states (one runs, one is tracked).
//  - Prompts do not wait for each other.

#include "replay/cache_model.h"
#include "replay/memory_plan.h"
#include "replay/path_index.h"

namespace stemma::replay {

// `index` must outlive it. Errors: `replay_bad_setting`: the budget does not hold a unit of KV and
// three states.
Result<std::unique_ptr<CacheModel>> make_track_cache(const PathIndex& index,
                                                     const ModelCosts& model,
                                                     const CacheSettings& settings, UnitSize unit);

}  // namespace stemma::replay
