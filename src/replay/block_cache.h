#pragma once
// A cache as vLLM has it for hybrid models: hashed blocks on a grid, with a state for each.
//
//  - One pool of equal pages. A block has so many tokens that its KV weighs at least as much as a
//  state: one page of KV and one
//    page of state for each full block ("all" mode).
//  - A hit is the deepest block end at which the KV of all blocks before it and its own state are
//  there.
//  - Only full blocks are found again. Pages of ended requests are evicted least recently used
//  first, the end of a path
//    before its start; KV and states alike.
//  - Prompts do not wait for each other.

#include "replay/cache_model.h"
#include "replay/memory_plan.h"
#include "replay/path_index.h"

namespace stemma::replay {

// `index` must outlive it. Errors: `replay_bad_setting`: the budget does not hold two pages.
Result<std::unique_ptr<CacheModel>> make_block_cache(const PathIndex& index,
                                                     const ModelCosts& model,
                                                     const CacheSettings& settings, UnitSize unit);

}  // namespace stemma::replay
