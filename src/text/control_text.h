#pragma once
// Text in a prompt that spells a control token, such as "<|im_end|>": a template's own is the token, a user's is just
// text. The template engine returns one string, so a user's is told apart by a mark that is put into it before rendering
// and taken out afterwards.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/ids.h"
#include "text/text_set.h"
#include "text/tokenizer.h"

namespace stemma {

// `text` without the occurrences of `mark`. O(text).
std::string without(std::string_view text, std::string_view mark);

// Immutable; thread-safe.
class ControlText {
 public:
  // Collects the texts of the vocabulary's control tokens. O(vocabulary). `tokenizer` must outlive it.
  explicit ControlText(const Tokenizer& tokenizer);

  // `messages` with `mark`, which appears in none of them, after the first byte of every control token that they spell.
  struct Marked {
    nlohmann::json messages;
    std::string mark;
  };
  // Nothing if no string in `messages` spells a control token. O(bytes * lengths of control tokens).
  std::optional<Marked> mark(const nlohmann::json& messages) const;

  // Tokens of a rendering of marked messages, less the marks: marked control texts become ordinary text, the others
  // tokens. Stretches without marks get exactly the tokens that Tokenizer::encode gives them.
  std::vector<Token> encode(std::string_view rendering, std::string_view mark) const;

 private:
  bool appears_in(const nlohmann::json& value) const;
  void insert_marks(nlohmann::json& value, std::string_view mark) const;

  const Tokenizer& tokenizer_;
  TextSet texts_;
};

}  // namespace stemma
