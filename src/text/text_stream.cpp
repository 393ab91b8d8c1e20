#include "text/text_stream.h"

namespace stemma {

TextStream::TextStream(const Tokenizer& tokenizer, const std::vector<std::string>& stop, bool special)
    : tokenizer_(tokenizer), special_(special), scanner_(stop) {}

std::string TextStream::push(Token token) {
  if (stopped()) return {};
  return scanner_.push(assembler_.push(tokenizer_.piece(token, special_)));
}

std::string TextStream::finish() {
  std::string text = scanner_.push(assembler_.finish());
  return text + scanner_.finish();
}

}  // namespace stemma
