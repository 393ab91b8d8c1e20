#pragma once
// The vocabulary files that come with llama.cpp's sources, for the tests of text/.

#include <memory>
#include <stdexcept>
#include <string>

#include "models/gguf_file.h"
#include "text/tokenizer.h"

namespace stemma {

inline std::string vocabulary_path(const std::string& name) {
  return std::string(STEMMA_LLAMA_CPP_DIR) + "/models/ggml-vocab-" + name + ".gguf";
}

inline std::shared_ptr<const GgufFile> open_vocabulary(const std::string& name) {
  auto file = GgufFile::open(vocabulary_path(name));
  if (!file) throw std::runtime_error(file.error().to_string());
  return *file;
}

inline std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name) {
  auto tokenizer = Tokenizer::load(*open_vocabulary(name));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().to_string());
  return std::move(*tokenizer);
}

}  // namespace stemma
