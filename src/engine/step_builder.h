#pragma once
// Turns the scheduler's chunks into a compute Step and keeps the arrays that the step's spans point to.

#include <span>
#include <vector>

#include "compute/step.h"
#include "engine/scheduler.h"

namespace stemma {

class StepBuilder {
 public:
  // The step that takes each chunk's sequence to `to`, with the marks its lease has prepared. A chunk that reaches
  // the end of its tokens gets the logits of its last one, unless the sequence wants no output. Valid until the next call and as
  // long as no lease changes. O(tokens of the step).
  const Step& build(std::span<const Chunk> chunks);

  // Whether chunk i of the last build has logits, which come in the order of the chunks.
  bool has_output(std::size_t i) const { return !step_.segments[i].outputs.empty(); }

 private:
  Step step_;
  std::vector<Mark> marks_;
  std::vector<Depth> outputs_;
};

}  // namespace stemma
