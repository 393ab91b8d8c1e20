#pragma once
// Text to tokens and back, with the vocabulary of a GGUF file. Wraps libllama's tokenizer (vocabulary only).

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "models/gguf_file.h"

struct llama_model;
struct llama_vocab;

namespace stemma {

// Thread-safe after construction.
class Tokenizer {
 public:
  // Checks the tokenizer's metadata (counts, types, indices) before libllama reads it from file.path(), of which it
  // reads the metadata only; `file` may go afterwards. O(vocabulary).
  // Errors: `tokenizer_bad_metadata`, `tokenizer_unsupported`.
  static Result<std::unique_ptr<Tokenizer>> load(const GgufFile& file);
  ~Tokenizer();

  std::size_t size() const;

  // `add_special`: BOS/EOS as the model wants them. `parse_special`: text such as "<|im_end|>" becomes that control
  // token. Every text has tokens: of invalid UTF-8, SentencePiece vocabularies see the bytes and BPE ones U+FFFD.
  // `text` is shorter than 2 GiB. Some BPE kinds see text without a space for 8192 characters in parts (long_runs.h).
  // O(text log text).
  std::vector<Token> encode(std::string_view text, bool add_special, bool parse_special) const;

  // The bytes of one token (may be a part of a UTF-8 sequence); none of an id outside the vocabulary. `special`:
  // whether control tokens have text.
  std::string piece(Token token, bool special) const;
  // The pieces one after another. Where a SentencePiece vocabulary's encode() put a space before the text, it stays.
  std::string decode(std::span<const Token> tokens, bool special) const;

  bool is_end_of_generation(Token token) const;
  // All of them, increasing.
  const std::vector<Token>& end_of_generation() const;
  std::optional<Token> bos() const;
  std::optional<Token> eos() const;

  // For the other files of text/.
  const llama_vocab* raw() const;
  const llama_model* raw_model() const;
  // The model's own template (tokenizer.chat_template), empty if it has none.
  const std::string& chat_template() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stemma
