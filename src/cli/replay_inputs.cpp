#include "cli/replay_inputs.h"

#include "cli/command.h"
#include "compute/cpu/cpu_device.h"
#include "replay/trace_reader.h"

namespace stemma {

namespace {

// The int8 codec: blocks of 32 values with an f16 scale. Windows of convolutions stay bf16 in it.
constexpr double kInt8Bytes = 34.0 / 32;
constexpr double kBf16Bytes = 2;

replay::ModelCosts costs_of(const Model& model) {
  const ModelInfo& info = model.info();
  const KvLayout kv = model.kv_layout(DType::f16, DType::f16, 16);
  const StateLayout state = model.state_layout();
  double windows = 0, matrices = 0;  // values
  for (const StateLayout::Layer& layer : state.layers) {
    windows += static_cast<double>(layer.conv_rows * layer.conv_cols);
    matrices += static_cast<double>(layer.heads * layer.d_v * layer.d_k);
  }
  replay::ModelCosts costs;
  costs.name = info.name;
  costs.attention_layers = static_cast<int>(kv.layers.size());
  costs.recurrent_layers = static_cast<int>(state.layers.size());
  costs.state_bytes = {static_cast<double>(state.row_bytes()), kBf16Bytes * (windows + matrices),
                       kBf16Bytes * windows + kInt8Bytes * matrices};
  costs.kv_bytes = static_cast<double>(kv.bytes_per_token());
  costs.parameters = costs.active_parameters = static_cast<double>(info.parameters);
  costs.attention_width = static_cast<double>(info.width);
  costs.basis = "the file; all parameters count as active, and attention as wide as the model";
  return costs;
}

bool is_gguf(const std::string& name) { return name.ends_with(".gguf") || name.ends_with(".GGUF"); }

}  // namespace

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::erase(parts, "");
  return parts;
}

Result<std::vector<double>> read_budgets(const std::string& option, const std::string& list) {
  constexpr double kMost = 1024.0 * 1024 * 1024 * 1024 * 1024;
  std::vector<double> budgets;
  for (const std::string& text : split_at_commas(list)) {
    STEMMA_TRY(const OptionValue value,
               parse_value({ValueType::bytes, 1, kMost}, {text}, option, "command line"));
    budgets.push_back(static_cast<double>(std::get<std::int64_t>(value)));
  }
  return budgets;
}

Result<replay::ModelCosts> read_model_costs(const std::string& name_or_path) {
  if (!is_gguf(name_or_path)) return replay::find_model_preset(name_or_path);
  STEMMA_TRY(const auto file, GgufFile::open(name_or_path));
  const auto device = make_cpu_device({.threads = 1});
  STEMMA_TRY(const auto model, load_model(file, *device));
  return costs_of(*model);
}

Result<replay::Trace> read_trace(const std::string& path, int sessions) {
  STEMMA_TRY(replay::Trace trace, replay::read_trace_file(path));
  if (sessions == 0) return trace;
  return every_kth_session(trace, static_cast<std::size_t>(sessions));
}

}  // namespace stemma
