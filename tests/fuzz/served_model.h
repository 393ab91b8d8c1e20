#pragma once
// The bundled model's tokenizer and chat template, loaded once a process.

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "models/gguf_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace stemma::fuzz {

// Ends the process with the error's text.
template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
  std::exit(1);
}

inline const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> loaded =
      must(Tokenizer::load(*must(GgufFile::open(STEMMA_SOURCE_DIR "/models/stemma-tiny.gguf"))));
  return *loaded;
}

inline const ChatTemplate& chat_template() {
  static const std::unique_ptr<ChatTemplate> loaded = must(ChatTemplate::load(tokenizer()));
  return *loaded;
}

}  // namespace stemma::fuzz
