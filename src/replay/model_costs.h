#pragma once
// What a model's cache entries weigh and what its tokens cost to compute: all that a replay needs
// to know of it.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace stemma::replay {

// How checkpoints are stored. Running states are f32 whatever the codec.
enum class StateCodec : std::uint8_t { f32, bf16, int8 };
constexpr std::array<std::string_view, 3> kStateCodecNames = {"f32", "bf16", "int8"};
// Errors: `replay_bad_setting`.
Result<StateCodec> find_state_codec(std::string_view name);

struct ModelCosts {
  std::string name;
  int attention_layers;
  int recurrent_layers;
  std::array<double, 3>
      state_bytes;  // of one checkpoint over all layers, by StateCodec; 0: no recurrent layers
  double kv_bytes;  // of one token over all attention layers, 16 bits a value
  double parameters;
  double active_parameters;  // that a token is multiplied with
  double attention_width;    // heads x head size of an attention layer
  std::string basis;         // where the numbers come from

  double state(StateCodec codec) const { return state_bytes[static_cast<std::size_t>(codec)]; }

  // FLOPs to compute the tokens [0, depth): two for each active parameter and token, and in each
  // attention layer 4 x width for each pair of a token and one before it (scores and weighted sum):
  // 2 * active * depth + 2 * layers * width * depth^2. Recurrences are below 1 % of it and left
  // out.
  double flops(double depth) const {
    return 2 * active_parameters * depth + 2 * attention_layers * attention_width * depth * depth;
  }
};

// Published hybrid models.
std::span<const ModelCosts> model_presets();
// By name, whatever the case. Errors: `replay_unknown_model`.
Result<ModelCosts> find_model_preset(std::string_view name);

}  // namespace stemma::replay
