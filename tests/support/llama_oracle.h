#pragma once
// libllama on a model file, as the measure of Stemma's forward passes.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/tensor.h"
#include "core/ids.h"

struct llama_model;
struct llama_context;

namespace stemma::test {

class LlamaOracle {
 public:
  // Throws std::runtime_error if libllama does not load `path`.
  explicit LlamaOracle(const std::string& path);
  ~LlamaOracle();

  using Logits = std::vector<float>;

  // The logits of every token of each sequence, all computed in one batch from empty memory with two threads;
  // `result[s][t]` is [vocabulary].
  std::vector<std::vector<Logits>> logits(std::span<const std::vector<Token>> sequences, bool flash_attention,
                                          DType kv_type) const;

 private:
  std::unique_ptr<llama_model, void (*)(llama_model*)> model_;
};

}  // namespace stemma::test
