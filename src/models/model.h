#pragma once
// A model as the engine sees it: sizes, layouts and a forward pass in compute's operations. One file per
// architecture family implements it (models/qwen35.cpp, models/llama.cpp); models/registry.cpp lists them.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "compute/device.h"
#include "compute/layout.h"
#include "compute/ops.h"
#include "core/result.h"
#include "models/gguf_file.h"

namespace stemma {

struct ModelInfo {
  std::string architecture;  // "qwen35"
  std::string name;          // general.name, or the file's name
  std::string fingerprint;   // hex SHA-256 over metadata and tensor infos and sampled bytes: same file, same value
  std::int64_t vocabulary;   // rows of the output matrix
  std::int64_t width;        // embedding length
  std::int64_t layers;       // blocks that run (without multi-token-prediction blocks)
  Depth context_length;      // trained context
  std::int64_t parameters;
  std::size_t weight_bytes;
  std::string weight_types;  // "Q8_0 (187), F32 (96)"
  // What computing a prompt's token takes, without its logits: in all layers, and for each token
  // before it.
  double flops_per_token;
  double flops_per_token_and_depth;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // What the model keeps between steps. KvLayout's types and page size are the caller's choice.
  virtual KvLayout kv_layout(DType k_type, DType v_type, int page_size) const = 0;
  virtual StateLayout state_layout() const = 0;

  virtual WeightStore& weights() const = 0;

  // The step's logits, [outputs, vocabulary]. Called by Device::run. Thread-safe (const, no state).
  virtual Tensor forward(Ops& ops) const = 0;
};

// Called while loading with bytes done and in all.
using LoadProgress = std::function<void(std::size_t done, std::size_t total)>;

// Validates the file against its architecture (every key, tensor, type and shape that the forward pass relies on) and
// places its weights on the device. The model keeps `file` alive. Errors: `gguf_*` and `model_*` of the catalogue.
Result<std::unique_ptr<Model>> load_model(std::shared_ptr<const GgufFile> file, Device& device,
                                          const LoadProgress& progress = {});

}  // namespace stemma
