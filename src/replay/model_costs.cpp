#include "replay/model_costs.h"

#include <algorithm>
#include <cctype>

namespace stemma::replay {

namespace {

constexpr double kMega = 1e6;
constexpr double kBillion = 1e9;

// Bases: "checked" - against a size that a serving engine printed; "config" - from the model's
// published configuration; "recalled" - from memory of that configuration. bf16 and int8 keep
// convolution windows in bf16; int8 has an f32 scale for each 128 values.
std::span<const ModelCosts> presets() {
  static const ModelCosts kPresets[] = {
      {"Jamba-1.5-Mini",
       4,
       28,
       {16.1 * kMega, 8.7 * kMega, 5.2 * kMega},
       16384,
       51.6 * kBillion,
       12 * kBillion,
       4096,
       "recalled"},
      {"Qwen3.5-0.8B",
       6,
       18,
       {19.5 * kMega, 10.1 * kMega, 5.5 * kMega},
       12288,
       0.8 * kBillion,
       0.8 * kBillion,
       2048,
       "recalled"},
      {"Qwen3.5-4B",
       8,
       24,
       {51.5 * kMega, 26.3 * kMega, 14.2 * kMega},
       32768,
       4 * kBillion,
       4 * kBillion,
       4096,
       "checked"},
      {"Qwen3.5-9B",
       8,
       24,
       {51.5 * kMega, 26.3 * kMega, 14.2 * kMega},
       32768,
       9 * kBillion,
       9 * kBillion,
       4096,
       "checked"},
      {"Qwen3.5-27B",
       16,
       48,
       {153.9 * kMega, 78.4 * kMega, 41.9 * kMega},
       65536,
       27 * kBillion,
       27 * kBillion,
       6144,
       "checked"},
      {"Qwen3-Next-80B-A3B",
       12,
       36,
       {77.3 * kMega, 39.5 * kMega, 21.2 * kMega},
       24576,
       80 * kBillion,
       3 * kBillion,
       4096,
       "config"},
      {"Qwen3.5-35B-A3B",
       10,
       30,
       {64.4 * kMega, 32.9 * kMega, 17.7 * kMega},
       20480,
       35 * kBillion,
       3 * kBillion,
       4096,
       "checked"},
      {"Kimi-Linear-48B-A3B",
       7,
       20,
       {43.4 * kMega, 22.4 * kMega, 12.3 * kMega},
       8064,
       48 * kBillion,
       3 * kBillion,
       5120,
       "recalled"},
      {"Qwen3.5-397B-A17B",
       15,
       45,
       {192.1 * kMega, 97.7 * kMega, 52.0 * kMega},
       30720,
       397 * kBillion,
       17 * kBillion,
       8192,
       "recalled"},
      {"Nemotron-H-8B",
       4,
       24,
       {102.1 * kMega, 51.8 * kMega, 27.4 * kMega},
       16384,
       8.1 * kBillion,
       8.1 * kBillion,
       4096,
       "config"},
      {"MiniMax-M1",
       10,
       70,
       {293.6 * kMega, 146.8 * kMega, 75.7 * kMega},
       40960,
       456 * kBillion,
       45.9 * kBillion,
       8192,
       "recalled"},
      {"Nemotron-3-Nano-30B-A3B",
       6,
       23,
       {49.1 * kMega, 25.0 * kMega, 13.3 * kMega},
       6144,
       31.6 * kBillion,
       3.2 * kBillion,
       4096,
       "checked"},
      {"Nemotron-Nano-9B-v2",
       4,
       27,
       {143.5 * kMega, 72.8 * kMega, 38.5 * kMega},
       16384,
       8.9 * kBillion,
       8.9 * kBillion,
       5120,
       "checked"},
      {"Granite-4.0-H-Small",
       4,
       36,
       {152.8 * kMega, 77.3 * kMega, 40.8 * kMega},
       16384,
       32 * kBillion,
       9 * kBillion,
       4096,
       "recalled"},
      {"Bamba-9B",
       3,
       29,
       {123.1 * kMega, 62.3 * kMega, 32.8 * kMega},
       12288,
       9.8 * kBillion,
       9.8 * kBillion,
       4096,
       "recalled"},
      {"Nemotron-3-Super-120B-A12B",
       8,
       40,
       {170.2 * kMega, 86.3 * kMega, 45.7 * kMega},
       8192,
       120 * kBillion,
       12 * kBillion,
       4096,
       "checked"},
      // The model that the Marconi paper was tuned on: its state is 16 bits a value as its code has
      // it.
      {"Marconi-7B",
       4,
       24,
       {53.6 * kMega, 26.8 * kMega, 14.2 * kMega},
       65536,
       7 * kBillion,
       7 * kBillion,
       4096,
       "config"},
  };
  return kPresets;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::span<const ModelCosts> model_presets() { return presets(); }

Result<ModelCosts> find_model_preset(std::string_view name) {
  std::string known;
  for (const ModelCosts& model : presets()) {
    if (same_name(model.name, name)) return model;
    known += (known.empty() ? "" : ", ") + model.name;
  }
  return fail(ErrorCode::replay_unknown_model, {{"name", std::string(name)}, {"known", known}});
}

Result<StateCodec> find_state_codec(std::string_view name) {
  const auto found = std::find(kStateCodecNames.begin(), kStateCodecNames.end(), name);
  if (found != kStateCodecNames.end())
    return static_cast<StateCodec>(found - kStateCodecNames.begin());
  return fail(ErrorCode::replay_bad_setting,
              {{"reason", "a codec is f32, bf16 or int8, not " + std::string(name)}});
}

}  // namespace stemma::replay
