// Which architectures there are.

#include <string>
#include <string_view>

#include "models/architectures.h"
#include "models/model.h"

namespace stemma {
namespace {

struct Architecture {
  std::string_view name;  // general.architecture
  Result<std::unique_ptr<Model>> (*load)(std::shared_ptr<const GgufFile>, Device&, const LoadProgress&);
};

constexpr Architecture kArchitectures[] = {
    {"llama", load_llama},
    {"qwen3", load_qwen3},
    {"qwen35", load_qwen35},
};

}  // namespace

Result<std::unique_ptr<Model>> load_model(std::shared_ptr<const GgufFile> file, Device& device,
                                          const LoadProgress& progress) {
  std::string supported;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == file->architecture()) return architecture.load(std::move(file), device, progress);
    supported += (supported.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return fail(ErrorCode::model_unsupported_architecture, {{"file", file->path()},
                                                          {"architecture", file->architecture()},
                                                          {"supported", supported}});
}

}  // namespace stemma
