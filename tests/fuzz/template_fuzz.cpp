// Any text as a chat template: it renders a chat, or is refused, and never ends the process: child_trial.h meets first what
// llama.cpp's template engine does with it.

#include <nlohmann/json.hpp>

#include "property.h"
#include "served_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stemma;
  static const nlohmann::json messages = {{{"role", "user"}, {"content", "one"}},
                                          {{"role", "assistant"}, {"content", "two"}},
                                          {{"role", "user"}, {"content", "three"}}};
  const auto loaded = ChatTemplate::load(fuzz::tokenizer(), std::string(fuzz::text_of(data, size)));
  if (!loaded) {
    fuzz::require(loaded.error().code() == ErrorCode::chat_template_invalid, "an error of the catalogue's");
    return 0;
  }
  const auto prompt = (*loaded)->apply(messages, nullptr);
  fuzz::require(prompt || prompt.error().code() == ErrorCode::chat_template_failed, "a prompt, or a template that failed");
  return 0;
}
