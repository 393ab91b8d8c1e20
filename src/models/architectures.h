#pragma once
// The loaders of the architecture families, for registry.cpp.

#include <memory>

#include "core/result.h"
#include "models/model.h"

namespace stemma {

// llama.cpp (the architectures llama and qwen3) and qwen35.cpp.
Result<std::unique_ptr<Model>> load_llama(std::shared_ptr<const GgufFile> file, Device& device,
                                          const LoadProgress& progress);
Result<std::unique_ptr<Model>> load_qwen3(std::shared_ptr<const GgufFile> file, Device& device,
                                          const LoadProgress& progress);
Result<std::unique_ptr<Model>> load_qwen35(std::shared_ptr<const GgufFile> file, Device& device,
                                           const LoadProgress& progress);

}  // namespace stemma
