#pragma once
// Cosines and sines of rotary embeddings for the rows of one step. Layers of a model share one set of parameters, so
// tables are computed once a step and found again by their parameters.
//
// A value depends on the depth and the pair alone: angles and their functions are computed in f64 and rounded once.
// Costs rows * n_rot / 2 sines and cosines a step and set of parameters. One thread.

#include <cstddef>
#include <span>
#include <vector>

#include "compute/ops.h"
#include "core/ids.h"

namespace stemma {

struct RopeTable {
  std::size_t pairs;
  std::vector<float> cosines;  // [rows, pairs]
  std::vector<float> sines;
};

class RopeTables {
 public:
  // Forgets the tables of the step before; `depths` (one a row) must live until the next call.
  void begin(std::span<const Depth> depths);

  // The table for `params`. `factors` are the divisors that params.factors names, empty if it names none. The
  // reference is good until the next call.
  const RopeTable& find(const RopeParams& params, std::span<const float> factors);

 private:
  struct Entry {
    RopeParams params;
    RopeTable table;
  };

  std::span<const Depth> depths_;
  std::vector<Entry> entries_;   // the first used_ are of this step, the rest keep their memory
  std::size_t used_ = 0;
};

}  // namespace stemma
