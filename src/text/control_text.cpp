#include "text/control_text.h"

#include <algorithm>

#include "llama.h"

namespace stemma {

std::string without(std::string_view text, std::string_view mark) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    result += text.substr(begin, end - begin);
    begin = end + mark.size();
  }
  return result;
}

ControlText::ControlText(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  // What libllama makes a token of only where special text is parsed.
  constexpr int control = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN;
  for (Token token = 0; token < static_cast<Token>(tokenizer.size()); ++token)
    if (llama_vocab_get_attr(tokenizer.raw(), token) & control)
      texts_.insert(llama_vocab_get_text(tokenizer.raw(), token));
}

bool ControlText::appears_in(const nlohmann::json& value) const {
  if (value.is_string()) return texts_.find(value.get_ref<const std::string&>(), 0).has_value();
  if (!value.is_structured()) return false;
  return std::any_of(value.begin(), value.end(), [&](const auto& element) { return appears_in(element); });
}

std::optional<ControlText::Marked> ControlText::mark(const nlohmann::json& messages) const {
  if (!appears_in(messages)) return std::nullopt;
  // U+FDD0, a noncharacter, which Unicode reserves for uses like this one; doubled until no message has it.
  Marked marked{messages, "\xef\xb7\x90"};
  const std::string all = messages.dump();
  while (all.find(marked.mark) != std::string::npos) marked.mark += marked.mark;
  insert_marks(marked.messages, marked.mark);
  return marked;
}

void ControlText::insert_marks(nlohmann::json& value, std::string_view mark) const {
  if (value.is_structured())
    for (nlohmann::json& element : value) insert_marks(element, mark);
  if (!value.is_string()) return;
  auto& text = value.get_ref<std::string&>();
  std::string result;
  std::size_t begin = 0;
  while (const auto match = texts_.find(text, begin)) {
    result += text.substr(begin, match->begin + 1 - begin);
    result += mark;
    begin = match->begin + 1;
  }
  text = result + text.substr(begin);
}

std::vector<Token> ControlText::encode(std::string_view rendering, std::string_view mark) const {
  std::vector<Token> tokens;
  const auto append = [&](std::string_view text, bool parse_special) {
    const std::vector<Token> more = tokenizer_.encode(text, false, parse_special);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };

  // The marks break users' control texts, so find() sees the template's only. They part the text for the tokenizer
  // anyway, so encoding the stretches between them one by one changes nothing.
  std::size_t pending = 0;  // [pending, begin) has no mark and is not encoded yet
  std::size_t begin = 0;
  while (true) {
    const auto match = texts_.find(rendering, begin);
    const std::size_t end = match ? match->begin : rendering.size();
    const std::string_view stretch = rendering.substr(begin, end - begin);
    if (stretch.find(mark) != std::string_view::npos) {
      append(rendering.substr(pending, begin - pending), true);
      append(without(stretch, mark), false);
      pending = end;
    }
    if (!match) break;
    begin = match->end;
  }
  append(rendering.substr(pending), true);
  return tokens;
}

}  // namespace stemma
