#include "engine/step_builder.h"

namespace stemma {

const Step& StepBuilder::build(std::span<const Chunk> chunks) {
  step_.segments.clear();
  marks_.clear();
  outputs_.clear();

  // First all arrays, then the spans into them: they must not grow any more when a span points there.
  std::vector<std::size_t> mark_counts;
  for (const Chunk& chunk : chunks) {
    const auto marks = chunk.sequence->lease->prepare_marks(chunk.to);
    mark_counts.push_back(marks.size());
    for (const LeaseMark& mark : marks) marks_.push_back({mark.depth, mark.row});
    outputs_.push_back(chunk.to - 1);
  }

  std::size_t mark = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Sequence& sequence = *chunks[i].sequence;
    const Lease& lease = *sequence.lease;
    const auto all = lease.tokens();
    const Depth from = lease.computed();
    const bool samples = chunks[i].to == static_cast<Depth>(all.size()) && sequence.max_tokens > 0;
    step_.segments.push_back({
        .tokens = all.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(chunks[i].to - from)),
        .start = from,
        .pages = lease.pages(),
        .kv_write_from = lease.kv_write_from(),
        .row = lease.state_row().value_or(RowId{0}),
        .marks = std::span(marks_).subspan(mark, mark_counts[i]),
        .outputs = std::span(outputs_).subspan(i, samples ? 1 : 0),
    });
    mark += mark_counts[i];
  }
  return step_;
}

}  // namespace stemma
