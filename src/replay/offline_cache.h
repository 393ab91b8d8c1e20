#pragma once
// What a cache could do that knows the future: the bound that policies are measured against.
//
// It has the same budget and the same costs as the real cache: KV pages of a unit, checkpoints in
// the codec's size, an f32 state for each running request, all in one pool without any split. It
// knows each coming request, in the order in which an unlimited cache would admit them, and decides
// with that:
//  - KV that nobody will use again is dropped when its request ends; a checkpoint is only taken
//  where a coming request
//    will stop.
//  - What goes first is the branch or checkpoint with the largest (turns until its next use) x
//  (bytes that it frees) /
//    (tokens that its next user would have to compute without it). For equal sizes that is Belady's
//    rule: what is needed furthest in the future.
//  - A branch is given up from its end; its checkpoint then moves up with the cut, as if it had
//  been taken there in the
//    first place: whoever knows the future would have.
//
// It is a policy that could be run, not a proof: the best choice of what to keep is a hard problem.
// It is told what no real cache can know, and it pays for no page size, no pool split and no
// checkpoint that turns out useless; an online policy above it by more than the noise of orders
// would be a defect here.

#include "replay/cache_model.h"
#include "replay/future.h"
#include "replay/memory_plan.h"

namespace stemma::replay {

// `index` and `future` must outlive it, and be of the trace and units that it is driven with.
// Errors: `replay_bad_setting`.
Result<std::unique_ptr<CacheModel>> make_offline_cache(const PathIndex& index, const Future& future,
                                                       const ModelCosts& model,
                                                       const CacheSettings& settings,
                                                       UnitSize unit);

}  // namespace stemma::replay
