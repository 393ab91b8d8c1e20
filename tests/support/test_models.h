#pragma once
// Small models for tests, made once a process in a directory that disappears with it. Not thread-safe.

#include <cstdint>
#include <string>

namespace stemma::test {

// A directory of this process's own, removed when it exits.
const std::string& temporary_directory();

// A vocabulary GGUF of 2,048 tokens, cut from Qwen3.5's: all bytes, the most frequent merges and the first 16
// special tokens (<|endoftext|>, <|im_start|>, <|im_end|>, ...), with its chat template. Small, so that test models are.
std::string small_vocabulary();

// A random-weight model with the small vocabulary (models/synthetic.h); returns its path. Throws std::runtime_error if
// it cannot be made.
std::string tiny_model(const std::string& architecture, const std::string& type, const std::string& preset = "tiny",
                       std::uint64_t seed = 1);

}  // namespace stemma::test
