#pragma once
// What a random-weight model consists of: its metadata and its tensors with the distributions to draw them from.
// Pure data, made from an architecture's and a preset's name.
//
// The distributions keep activations at unit scale through any number of blocks, spread the decays of recurrent heads
// from fast to slow as training does, make attention attend (scores of standard deviation 2) and give logits a
// standard deviation of about 2.5. So quantization, top-1 comparisons and cached states behave as in a trained model.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"

namespace stemma {

struct PlannedKey {
  std::string key;
  std::variant<std::uint32_t, float, std::vector<std::int32_t>> value;
};

// mean + deviation * a value of mean 0 and variance 1.
struct Normal {
  float mean;
  float deviation;
};
// sign * exp(uniform between the logarithms): the time scales of recurrent heads.
struct LogUniform {
  float sign;
  float low;
  float high;
};
// softplus^-1 of a log-uniform value.
struct InverseSoftplusLogUniform {
  float low;
  float high;
};

struct PlannedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // ggml's order, innermost first
  bool is_matrix;                   // has the model's type; F32 otherwise
  bool is_sensitive;                // of a model of two types it has the wider one
  std::variant<Normal, LogUniform, InverseSoftplusLogUniform> values;
};

struct SyntheticPlan {
  std::vector<PlannedKey> keys;
  std::vector<PlannedTensor> tensors;
};

// Errors: `make_model_bad_option` on an unknown architecture or preset.
Result<SyntheticPlan> plan_synthetic_model(std::string_view architecture, std::string_view preset,
                                           std::int64_t vocabulary);

}  // namespace stemma
