#include "engine/batch_sampler.h"

#include <algorithm>
#include <cmath>

namespace stemma {

namespace {

// Below so many logits in all, waking threads takes longer than they save.
constexpr std::size_t kFewLogits = std::size_t{1} << 17;

void draw_one(Draw& draw) {
  const bool no_number = std::ranges::all_of(draw.logits, [](float x) { return std::isnan(x); });
  if (!no_number) draw.sampled = draw.sampler->sample(draw.logits);
}

}  // namespace

void BatchSampler::draw(std::span<Draw> draws) {
  if (draws.size() < 2 || draws.size() * draws[0].logits.size() < kFewLogits) {
    for (Draw& one : draws) draw_one(one);
    return;
  }
  const ThreadPool::Busy busy(pool_);
  pool_.parallel_for(draws.size(), [&](std::size_t i, int /*thread*/) { draw_one(draws[i]); });
}

}  // namespace stemma
