#pragma once
// Rotary positions as a file's metadata describes them, brought into the one form that RopeParams has.
//
// Linear scaling divides every angle by rope.scaling.factor. YaRN (Peng et al., arXiv 2309.00071) scales pair i by
//   s_i = (1 - r_i) / factor + r_i,   r_i = 1 - clamp((i - low) / (high - low), 0, 1),
//   low, high = n_rot ln(L / (2 pi beta)) / (2 ln base), beta = 32 (rounded down) and 1 (rounded up),
// with L the original context: 1 / s_i are RopeParams::factors. It also lengthens the rotated q and k by
// 1 + 0.1 ln factor, the square of which goes into AttentionParams::scale.

#include "compute/ops.h"
#include "core/result.h"
#include "models/config_reader.h"
#include "models/weight_loader.h"

namespace stemma {

struct RopeConfig {
  RopeParams params;
  float length;  // of rotated vectors, relative to what they were; != 1 only if all channels of a head rotate
};

// Reads rope.* for heads of `head_size` channels; the trained context is `context_length`. `frequency_factors`: whether
// the architecture reads rope_freqs.weight (Llama 3's divisors).
// Errors: `model_bad_key`, `model_bad_tensor`.
Result<RopeConfig> read_rope(const ConfigReader& config, WeightLoader& weights, RopeParams::Pairs pairs,
                             std::int64_t head_size, std::int64_t context_length, bool frequency_factors);

}  // namespace stemma
