#pragma once
// One forward pass, as plain data: which tokens of which sequences, where their KV lies, which state row they
// update, and at which depths checkpoints are to be taken. The engine fills it, a device carries it out.

#include <span>
#include <vector>

#include "core/ids.h"

namespace stemma {

// A depth inside a segment at which the state is to be stored: `row` receives a copy of the state that has
// consumed exactly the tokens [0, depth). Segment::start < depth <= Segment::end().
struct Mark {
  Depth depth;
  RowId row;
};

// The tokens of one sequence in one step.
struct Segment {
  std::span<const Token> tokens;   // those at depths [start, end())
  Depth start;                     // the state row has consumed exactly [0, start)
  std::span<const PageId> pages;   // page i holds the rows of depths [i, i+1) * page_size; covers end()
  Depth kv_write_from;             // K and V rows below this depth exist already, in pages others read: the step
                                   // uses them and does not write them
  RowId row;                       // running state, updated in place; unused by models without recurrent layers
  std::span<const Mark> marks;     // increasing depths
  std::span<const Depth> outputs;  // depths in [start, end()) whose logits are wanted, increasing

  Depth end() const { return start + static_cast<Depth>(tokens.size()); }
};

// All segments of one pass: decode tokens and prefill chunks in one ragged batch. No two segments share a state
// row, and no page slot that one writes is written or read by another.
struct Step {
  std::vector<Segment> segments;

  std::size_t token_count() const {
    std::size_t n = 0;
    for (const Segment& s : segments) n += s.tokens.size();
    return n;
  }
  std::size_t output_count() const {
    std::size_t n = 0;
    for (const Segment& s : segments) n += s.outputs.size();
    return n;
  }
};

}  // namespace stemma
