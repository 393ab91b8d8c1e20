#pragma once
// libllama on a model file, as the measure of Stemma's forward passes. It is set to multiply every row
// of a batch on its own (no repacked weights, no tiles, and a build without llamafile's kernels): its
// logits without flash attention then do not depend on what else is in the batch, on how the batch is
// cut or on the threads, so that there is one thing to compare with.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/tensor.h"
#include "core/ids.h"

struct llama_model;
struct llama_context;

namespace stemma::test {

// How libllama is to compute.
struct LlamaSettings {
  DType kv_type;
  bool flash_attention = false;
  std::uint32_t rows_at_once = 512;  // tokens of the batch that pass through the layers together
  int threads = 1;
};

class LlamaOracle {
 public:
  // Throws std::runtime_error if libllama does not load `path`.
  explicit LlamaOracle(const std::string& path);
  ~LlamaOracle();

  using Logits = std::vector<float>;

  // The logits of every token of each sequence, all computed in one batch from empty memory;
  // `result[s][t]` is [vocabulary].
  std::vector<std::vector<Logits>> logits(std::span<const std::vector<Token>> sequences,
                                          const LlamaSettings& settings) const;

 private:
  std::unique_ptr<llama_model, void (*)(llama_model*)> model_;
};

// Writes the model `from` to `to` in llama.cpp's mix Q4_K_M. Throws std::runtime_error if libllama
// cannot.
void quantize_to_q4_k_m(const std::string& from, const std::string& to);

}  // namespace stemma::test
