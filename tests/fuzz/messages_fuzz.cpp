// Any messages and arguments, through templates that models come with: a prompt of the vocabulary's tokens or an error. The
// input: a number of a template; a line "====="; messages; the line again; chat_template_kwargs.

#include <array>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "property.h"
#include "served_model.h"

namespace stemma::fuzz {
namespace {

// Long ones with loops, tools, thinking, and rules of their own for messages.
constexpr std::array kFiles = {"Qwen3.5-4B", "meta-llama-Llama-3.1-8B-Instruct", "HuggingFaceTB-SmolLM3-3B",
                               "mistralai-Mistral-Nemo-Instruct-2407", "deepseek-ai-DeepSeek-V3.1",
                               "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"};

std::unique_ptr<ChatTemplate> load(const char* name) {
  std::ifstream file(std::string(STEMMA_LLAMA_CPP_DIR "/models/templates/") + name + ".jinja");
  std::ostringstream source;
  source << file.rdbuf();
  return must(ChatTemplate::load(tokenizer(), source.str()));
}

const ChatTemplate& numbered(std::size_t number) {
  static const auto loaded = [] {
    std::array<std::unique_ptr<ChatTemplate>, kFiles.size()> all;
    for (std::size_t i = 0; i < kFiles.size(); ++i) all[i] = load(kFiles[i]);
    return all;
  }();
  number %= kFiles.size() + 1;
  return number == kFiles.size() ? chat_template() : *loaded[number];
}

nlohmann::json parsed(const std::string& text) { return nlohmann::json::parse(text, nullptr, false); }

void check(std::string_view input) {
  const auto parts = sections_of(input, 3);
  const nlohmann::json messages = parsed(parts[1]);
  nlohmann::json arguments = parsed(parts[2]);
  if (messages.is_discarded()) return;
  if (arguments.is_discarded()) arguments = nullptr;
  const auto prompt = numbered(parts[0].empty() ? 0 : static_cast<unsigned char>(parts[0][0])).apply(messages, arguments);
  if (!prompt) {
    const ErrorCode code = prompt.error().code();
    require(code == ErrorCode::chat_bad_messages || code == ErrorCode::chat_template_failed, "an error of the catalogue's");
    return;
  }
  for (const Token token : prompt->tokens) {
    require(token >= 0 && static_cast<std::size_t>(token) < tokenizer().size(), "tokens are the vocabulary's");
  }
  Depth last = 0;
  for (const Depth end : prompt->message_ends) {
    require(end > last && end < static_cast<Depth>(prompt->tokens.size()), "message ends increase inside the prompt");
    last = end;
  }
}

}  // namespace
}  // namespace stemma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stemma::fuzz::check(stemma::fuzz::text_of(data, size));
  return 0;
}
