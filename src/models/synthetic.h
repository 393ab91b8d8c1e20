#pragma once
// Random-weight models of a named architecture, written as GGUF files with a real tokenizer: what tests and
// benchmarks run on, and what `stemma make-model` writes.

#include <cstdint>
#include <string>

#include "core/result.h"

namespace stemma {

struct SyntheticModelSpec {
  std::string architecture;      // qwen35, llama, qwen3
  std::string preset;            // tiny, small, 0.8b
  std::string type;              // of the matrices (the rest is f32): f32, f16, bf16, q8_0, q4_0,
                                 // q4_k, q4_k_m (llama.cpp's mix of Q4_K and Q6_K)
  std::uint64_t seed = 0;        // same spec and seed, same bytes
  std::string vocabulary_path;   // a vocabulary GGUF (tokenizer.* keys are copied from it)
  std::string output_path;
};

// Writes the file (through a temporary beside it, renamed at the end). Weights are drawn so that activations keep
// unit scale and logits spread like a trained model's. Errors: `make_model_bad_option`, `gguf_*`, `file_write_failed`.
Status write_synthetic_model(const SyntheticModelSpec& spec);

}  // namespace stemma
