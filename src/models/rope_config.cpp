#include "models/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "models/gguf_part.h"

namespace stemma {
namespace {

// The share of YaRN's frequencies that is not interpolated, for each pair.
std::vector<float> yarn_ramp(std::int64_t n_rot, double base, double original_context) {
  const auto pair_with_rotations = [&](double rotations) {
    return static_cast<double>(n_rot) * std::log(original_context / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  constexpr double kBetaFast = 32;
  constexpr double kBetaSlow = 1;
  const double low = std::max(0.0, std::floor(pair_with_rotations(kBetaFast)));
  const double high = std::min(static_cast<double>(n_rot - 1), std::ceil(pair_with_rotations(kBetaSlow)));
  std::vector<float> ramp;
  for (std::int64_t i = 0; i < n_rot / 2; ++i) {
    const double y = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    ramp.push_back(static_cast<float>(1 - std::clamp(y, 0.0, 1.0)));
  }
  return ramp;
}

}  // namespace

Result<RopeConfig> read_rope(const ConfigReader& config, WeightLoader& weights, RopeParams::Pairs pairs,
                             std::int64_t head_size, std::int64_t context_length, bool frequency_factors) {
  STEMMA_TRY(const auto n_rot, config.int_or("rope.dimension_count", head_size, {2, head_size}));
  if (n_rot % 2 != 0) return config.bad("rope.dimension_count", std::to_string(n_rot), "it must be even");
  STEMMA_TRY(const auto base, config.float_or("rope.freq_base", 10000.0, {1.001, 1e12}));
  STEMMA_TRY(const auto length, config.float_or("rope.scaling.attn_factor", 1.0, {1e-3, 1e3}));

  // A factor of 0 means none; files before 2024 call it rope.scale_linear.
  constexpr Range<double> kFactors{0.0, 1e6};
  STEMMA_TRY(const auto old_factor, config.float_or("rope.scale_linear", 0.0, kFactors));
  STEMMA_TRY(auto factor, config.float_or("rope.scaling.factor", old_factor, kFactors));
  if (factor == 0.0) factor = 1.0;
  STEMMA_TRY(const auto type, config.find_string("rope.scaling.type"));

  RopeConfig rope{{.pairs = pairs,
                   .head_size = static_cast<int>(head_size),
                   .n_rot = static_cast<int>(n_rot),
                   .freq_base = static_cast<float>(base),
                   .factors = std::nullopt},
                  static_cast<float>(length)};
  if (frequency_factors) {
    STEMMA_TRY(rope.params.factors, weights.find_vector("rope_freqs.weight", {n_rot / 2}));
  }

  if (!type || *type == "linear") {
    rope.params.freq_scale = static_cast<float>(1.0 / factor);
  } else if (*type == "yarn") {
    if (rope.params.factors) {
      return config.bad("rope.scaling.type", "yarn", "it does not go together with rope_freqs.weight");
    }
    STEMMA_TRY(const auto original,
               config.int_or("rope.scaling.original_context_length", context_length, {1, kMaxContext}));
    std::vector<float> divisors;
    for (const float r : yarn_ramp(n_rot, base, static_cast<double>(original))) {
      divisors.push_back(1.0f / (static_cast<float>(1.0 / factor) * (1 - r) + r));
    }
    STEMMA_TRY(rope.params.factors, weights.computed_vector("rope.scaling (YaRN)", divisors));
    rope.length *= factor > 1.0 ? static_cast<float>(1.0 + 0.1 * std::log(factor)) : 1.0f;
  } else if (*type != "none") {
    return config.bad("rope.scaling.type", printable(*type), "known are none, linear and yarn");
  }
  if (rope.length != 1.0f && n_rot != head_size) {
    return config.bad("rope.dimension_count", std::to_string(n_rot),
                      "scaling that lengthens the rotated channels needs all channels of a head to rotate");
  }
  return rope;
}

}  // namespace stemma
