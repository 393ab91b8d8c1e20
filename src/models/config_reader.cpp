#include "models/config_reader.h"

#include <algorithm>
#include <sstream>

namespace stemma {
namespace {

std::string text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}
std::string text(std::int64_t value) { return std::to_string(value); }

template <class T>
bool contains(Range<T> range, T value) {
  return value >= range.low && value <= range.high;  // false for NaN
}

template <class T>
std::string expectation(Range<T> range) {
  return "it must lie between " + text(range.low) + " and " + text(range.high);
}

// Keys that change a model's answers, each with the value at which it does not.
struct UnsupportedKey {
  std::string_view key;
  double neutral;
  std::string_view what;
};
constexpr UnsupportedKey kUnsupported[] = {
    {"expert_count", 0, "mixtures of experts"},
    {"attention.causal", 1, "attention that looks ahead"},
    {"attention.sliding_window", 0, "attention in a sliding window"},
    {"attention.max_alibi_bias", 0, "ALiBi positions"},
    {"attention.clamp_kqv", 0, "clamped queries, keys and values"},
    {"attention.output_scale", 1, "a scale of the attention's output"},
    {"attention.value_scale", 1, "a scale of the values"},
    {"attention.temperature_length", 0, "a temperature that depends on the depth"},
    {"attention.temperature_scale", 0, "a temperature that depends on the depth"},
    {"attention.shared_kv_layers", 0, "layers that share keys and values"},
    {"attn_logit_softcapping", 0, "soft-capped attention"},
    {"final_logit_softcapping", 0, "soft-capped logits"},
    {"logit_scale", 1, "scaled logits"},
    {"residual_scale", 1, "scaled residuals"},
    {"embedding_scale", 1, "scaled embeddings"},
    {"use_parallel_residual", 0, "parallel residuals"},
    {"num_loops", 1, "looped layers"},
    {"rope.scaling.alpha", 0, "NTK-aware rope scaling"},
    {"rope.scaling.yarn_log_multiplier", 0, "YaRN with a multiplier of its own"},
    {"rope.scaling.yarn_ext_factor", 1, "YaRN with parameters of its own"},
    {"rope.scaling.yarn_attn_factor", 1, "YaRN with parameters of its own"},
    {"rope.scaling.yarn_beta_fast", 32, "YaRN with parameters of its own"},
    {"rope.scaling.yarn_beta_slow", 1, "YaRN with parameters of its own"},
};

}  // namespace

std::string ConfigReader::full(std::string_view key) const {
  return file_.architecture() + "." + std::string(key);
}

tl::unexpected<Error> ConfigReader::missing(std::string_view key) const {
  return fail(ErrorCode::model_missing_key,
              {{"file", file_.path()}, {"key", full(key)}, {"architecture", file_.architecture()}});
}

tl::unexpected<Error> ConfigReader::bad(std::string_view key, std::string value, std::string reason) const {
  return fail(ErrorCode::model_bad_key, {{"file", file_.path()},
                                         {"key", full(key)},
                                         {"value", std::move(value)},
                                         {"reason", std::move(reason)}});
}

Result<std::optional<std::int64_t>> ConfigReader::find_int(std::string_view key, Range<std::int64_t> range) const {
  STEMMA_TRY(const auto value, file_.find_int(full(key)));
  if (value && !contains(range, *value)) return bad(key, text(*value), expectation(range));
  return value;
}

Result<std::int64_t> ConfigReader::int_or(std::string_view key, std::int64_t otherwise,
                                          Range<std::int64_t> range) const {
  STEMMA_TRY(const auto value, find_int(key, range));
  return value.value_or(otherwise);
}

Result<std::int64_t> ConfigReader::require_int(std::string_view key, Range<std::int64_t> range) const {
  STEMMA_TRY(const auto value, find_int(key, range));
  if (!value) return missing(key);
  return *value;
}

Result<std::optional<double>> ConfigReader::find_float(std::string_view key, Range<double> range) const {
  STEMMA_TRY(const auto value, file_.find_float(full(key)));
  if (value && !contains(range, *value)) return bad(key, text(*value), expectation(range));
  return value;
}

Result<double> ConfigReader::float_or(std::string_view key, double otherwise, Range<double> range) const {
  STEMMA_TRY(const auto value, find_float(key, range));
  return value.value_or(otherwise);
}

Result<double> ConfigReader::require_float(std::string_view key, Range<double> range) const {
  STEMMA_TRY(const auto value, find_float(key, range));
  if (!value) return missing(key);
  return *value;
}

Result<std::optional<std::string_view>> ConfigReader::find_string(std::string_view key) const {
  return file_.find_string(full(key));
}

Result<std::optional<std::vector<std::int64_t>>> ConfigReader::find_ints(std::string_view key,
                                                                        Range<std::int64_t> range) const {
  STEMMA_TRY(auto values, file_.find_ints(full(key)));
  if (!values) return std::nullopt;
  for (const std::int64_t value : *values) {
    if (!contains(range, value)) return bad(key, "a list with " + text(value), expectation(range));
  }
  return values;
}

Result<std::optional<std::int64_t>> ConfigReader::find_uniform(std::string_view key, std::int64_t layers,
                                                               Range<std::int64_t> range) const {
  STEMMA_TRY(const auto values, file_.find_ints(full(key)));
  if (!values) return std::nullopt;
  if (values->size() != 1 && std::ssize(*values) != layers) {
    return bad(key, "a list of " + std::to_string(values->size()),
               "it must have one entry a layer (" + std::to_string(layers) + ")");
  }
  std::optional<std::int64_t> uniform;
  for (const std::int64_t value : *values) {
    if (value == 0 && values->size() > 1) continue;
    if (!contains(range, value)) return bad(key, text(value), expectation(range));
    if (uniform && *uniform != value) {
      return bad(key, "a list with " + text(*uniform) + " and " + text(value),
                 "layers of different sizes are not supported");
    }
    uniform = value;
  }
  return uniform;
}

Status ConfigReader::reject_unsupported() const {
  for (const UnsupportedKey& entry : kUnsupported) {
    STEMMA_TRY(const auto values, file_.find_floats(full(entry.key)));
    if (!values) continue;
    for (const double value : *values) {
      if (value != entry.neutral) {
        return bad(entry.key, text(value), "a model with " + std::string(entry.what) + " is not supported");
      }
    }
  }
  return {};
}

}  // namespace stemma
