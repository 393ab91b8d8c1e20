#pragma once
// A cache as llama-server has it: slots that each keep the sequence that ran in them last.
//
//  - As many slots as requests may run. A request takes the idle slot whose sequence it shares most
//  with, if that is a
//    tenth of its prompt or more; else the one that was idle longest.
//  - A slot has the state at the end of its sequence, and a checkpoint at the end of its prompt. A
//  prompt that goes on
//    from one of them continues there; one that branches off before starts from nothing.
//  - KV is one pool for all slots (--kv-unified): when it is full, idle slots are cleared, the
//  oldest first.
// Left out: the prompt cache in host memory (--cache-ram), and saving slots to files.

#include "replay/cache_model.h"
#include "replay/memory_plan.h"
#include "replay/path_index.h"

namespace stemma::replay {

// `index` must outlive it. Errors: `replay_bad_setting`: the budget does not hold the slots'
// states.
Result<std::unique_ptr<CacheModel>> make_slot_cache(const PathIndex& index, const ModelCosts& model,
                                                    const CacheSettings& settings, UnitSize unit);

}  // namespace stemma::replay
