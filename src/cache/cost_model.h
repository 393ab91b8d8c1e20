#pragma once
// What it costs to compute tokens again, in any one unit (FLOPs, seconds,
// tokens): each token has a constant part (products, recurrent layers) and one
// that grows with its depth (attention).

#include "core/ids.h"

namespace stemma {

struct CostModel {
  double per_token = 1;
  double per_token_and_depth = 0;

  // Of the tokens [from, to). Zero if there are none.
  double of(Depth from, Depth to) const {
    if (to <= from) return 0;
    const double tokens = static_cast<double>(to) - from;
    return tokens * (per_token + per_token_and_depth * (static_cast<double>(to) + from) / 2);
  }
};

}  // namespace stemma
