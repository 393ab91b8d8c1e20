// stemma inspect: what a GGUF file holds, and what a token and a state of it cost in the cache.

#include <iomanip>
#include <iostream>

#include "cli/command.h"
#include "compute/cpu/cpu_device.h"

namespace stemma {

namespace {

std::ostream& line(const char* name) { return std::cout << std::left << std::setw(16) << name; }

}  // namespace

Status inspect_command(const CommandInput& input) {
  STEMMA_TRY(const auto file, GgufFile::open(input.resolved.options.model_path));
  const auto device = make_cpu_device({.threads = 1});
  STEMMA_TRY(const auto model, load_model(file, *device));
  const ModelInfo& info = model->info();
  const EngineConfig defaults;
  const KvLayout kv = model->kv_layout(defaults.k_type, defaults.v_type, defaults.page_size);
  const StateLayout state = model->state_layout();

  line("name") << info.name << '\n';
  line("architecture") << info.architecture << '\n';
  line("parameters") << std::fixed << std::setprecision(1) << static_cast<double>(info.parameters) / 1e6 << " M\n";
  line("weights") << display_bytes(static_cast<double>(info.weight_bytes)) << " (" << info.weight_types << ")\n";
  line("layers") << info.layers << ": " << kv.layers.size() << " attention, " << state.layers.size()
                 << " recurrent\n";
  line("width") << info.width << '\n';
  line("vocabulary") << info.vocabulary << '\n';
  line("context") << info.context_length << " tokens\n";
  line("KV") << display_bytes(static_cast<double>(kv.bytes_per_token())) << " a token (f16)\n";
  if (state.empty()) {
    line("state") << "none: every layer is attention\n";
  } else {
    line("state") << display_bytes(static_cast<double>(state.row_bytes())) << " (f32), as much as "
                  << state.row_bytes() / std::max<std::size_t>(kv.bytes_per_token(), 1) << " tokens of KV\n";
  }
  line("fingerprint") << info.fingerprint << '\n';
  return {};
}

}  // namespace stemma
