#pragma once
// The next tokens of all sequences of a step, drawn in parallel. What a sequence draws depends on its own sampler and logits
// only, so threads and their number change nothing.

#include <optional>
#include <span>

#include "compute/cpu/thread_pool.h"
#include "text/sampler.h"

namespace stemma {

struct Draw {
  Sampler* sampler;
  std::span<const float> logits;
  std::optional<Sampled> sampled = {};  // empty where no logit is a number
};

// One thread uses it at a time.
class BatchSampler {
 public:
  // `threads` >= 1 counts the calling one. The others sleep between calls.
  explicit BatchSampler(int threads) : pool_(threads) {}

  // Fills in `sampled`. The samplers differ from each other.
  void draw(std::span<Draw> draws);

 private:
  ThreadPool pool_;
};

}  // namespace stemma
