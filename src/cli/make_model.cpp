// stemma make-model: a model with random weights.

#include <filesystem>
#include <iostream>

#include "cli/command.h"
#include "models/synthetic.h"

namespace stemma {

Status make_model_command(const CommandInput& input) {
  const SyntheticModelSpec& spec = input.resolved.options.make_model;
  STEMMA_CHECK(write_synthetic_model(spec));
  std::error_code ignored;
  const auto bytes = static_cast<double>(std::filesystem::file_size(spec.output_path, ignored));
  std::cout << spec.output_path << ": " << spec.architecture << ' ' << spec.preset << ", " << spec.type << ", "
            << display_bytes(bytes) << '\n';
  return {};
}

}  // namespace stemma
