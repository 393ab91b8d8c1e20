#include "text/chat_template.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "chat.h"
#include "llama.h"

#include "text/chat_messages.h"
#include "text/child_trial.h"
#include "text/control_text.h"
#include "text/llama_library.h"
#include "text/token_offsets.h"

namespace stemma {

namespace {

using nlohmann::json;

// Ends of messages are looked for at the first messages (the system prompt, which requests share) and at the last ones
// (where the next turn goes on); between them, a long history has been cached turn by turn.
constexpr std::size_t kFirstEnds = 2;
constexpr std::size_t kLastEnds = 62;

std::vector<common_chat_msg> parse_messages(const json& messages) {
  return common_chat_msgs_parse_oaicompat(common_json::parse(messages.dump()));
}

// Renders a short chat, as llama-server would, with what a template may make of it.
void render_sample(const common_chat_templates* templates) {
  common_chat_templates_inputs inputs;
  inputs.add_generation_prompt = true;
  for (const char* role : {"user", "assistant", "user"}) {
    common_chat_msg& message = inputs.messages.emplace_back();
    message.role = role;
    message.content = "text";
    common_chat_templates_apply(templates, inputs);
  }
}

}  // namespace

// `full` does what llama-server does: some templates get messages changed to suit them, and a parser for the answer is
// worked out each time, which takes longer than the rest. `plain` is the template's rendering and nothing else.
enum class Rendering { full, plain };

struct ChatTemplate::Impl {
  const Tokenizer& tokenizer;
  std::string source;
  common_chat_templates_ptr templates;
  ControlText control_text;
  // Rendering calls std::localtime for the templates' date, which is not thread-safe.
  mutable std::mutex mutex;

  // The prompt for the first `count` messages. Throws what llama.cpp throws.
  std::string render(const std::vector<common_chat_msg>& messages, std::size_t count, const json& arguments,
                     bool generation_prompt, Rendering rendering) const;

  // The tokens of `text`, which is the rendering of `messages`, without BOS. Throws what llama.cpp throws.
  std::vector<Token> encode(const std::string& text, const json& messages, const json& arguments) const;

  // Depths at which messages end (ChatPrompt); `ends`: where the prompt's tokens end in `text`. A prefix of the list that
  // the template refuses (no user message yet, ...) has no end.
  std::vector<Depth> message_ends(const std::vector<common_chat_msg>& messages, const json& arguments,
                                  const std::string& text, std::span<const std::size_t> ends) const;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::load(const Tokenizer& tokenizer,
                                                         const std::string& override_source) {
  start_llama_library();
  const std::string& own = tokenizer.chat_template();
  const std::string& text = override_source.empty() ? own : override_source;
  // llama.cpp follows a template wherever it leads, out of the stack or round and round, and it asks for what a template can
  // do by rendering it.
  if (!text.empty() && text != "chatml") {
    std::string fault = fault_in_child([&] {
      render_sample(common_chat_templates_init(tokenizer.raw_model(), text).get());
    });
    if (!fault.empty()) return fail(ErrorCode::chat_template_invalid, {{"reason", std::move(fault)}});
  }
  try {
    // common_chat_templates_init() loses the parser's message, so the parser is asked first.
    if (!text.empty() && text != "chatml") static_cast<void>(common_chat_template(text, "", ""));
    const char* source = !override_source.empty() ? "override" : !own.empty() ? "model" : "chatml";
    return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::unique_ptr<Impl>(
        new Impl{tokenizer, source, common_chat_templates_init(tokenizer.raw_model(), text.empty() ? "chatml" : text),
                 ControlText(tokenizer), {}})));
  } catch (const std::exception& exception) {
    return fail(ErrorCode::chat_template_invalid, {{"reason", exception.what()}});
  }
}

std::string ChatTemplate::source() const { return impl_->source; }

std::string ChatTemplate::Impl::render(const std::vector<common_chat_msg>& messages, std::size_t count,
                                       const json& arguments, bool generation_prompt, Rendering rendering) const {
  common_chat_templates_inputs inputs;
  inputs.force_pure_content = rendering == Rendering::plain;
  inputs.messages.assign(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
  inputs.add_generation_prompt = generation_prompt;
  for (const auto& [name, value] : arguments.items()) inputs.chat_template_kwargs[name] = value.dump();
  if (arguments.is_object()) inputs.enable_thinking = arguments.value("enable_thinking", json(true)) != false;
  const std::lock_guard lock(mutex);
  return common_chat_templates_apply(templates.get(), inputs).prompt;
}

std::vector<Token> ChatTemplate::Impl::encode(const std::string& text, const json& messages,
                                              const json& arguments) const {
  if (const auto marked = control_text.mark(messages)) {
    const std::vector<common_chat_msg> parsed = parse_messages(marked->messages);
    const std::string rendering = render(parsed, parsed.size(), arguments, true, Rendering::full);
    // A template that looks at what users wrote may render marked messages differently; then its own text counts.
    if (without(rendering, marked->mark) == text) return control_text.encode(rendering, marked->mark);
  }
  return tokenizer.encode(text, false, true);
}

std::vector<Depth> ChatTemplate::Impl::message_ends(const std::vector<common_chat_msg>& messages,
                                                    const json& arguments, const std::string& text,
                                                    std::span<const std::size_t> ends) const {
  std::vector<Depth> depths;
  const bool plain = render(messages, messages.size(), arguments, true, Rendering::plain) == text;
  for (std::size_t count = 1; count <= messages.size(); ++count) {
    if (count > kFirstEnds && count + kLastEnds <= messages.size()) continue;
    std::string prefix;
    try {
      prefix = render(messages, count, arguments, false, plain ? Rendering::plain : Rendering::full);
    } catch (const std::exception&) {
      continue;
    }
    const auto differs = std::mismatch(text.begin(), text.end(), prefix.begin(), prefix.end()).first;
    const Depth depth = tokens_within(ends, static_cast<std::size_t>(differs - text.begin()));
    if (depth > (depths.empty() ? 0 : depths.back())) depths.push_back(depth);
  }
  return depths;
}

Result<ChatPrompt> ChatTemplate::apply(const json& messages, const json& template_arguments, Depth longest) const {
  STEMMA_TRY(const json checked, checked_chat_messages(messages));
  STEMMA_CHECK(check_template_arguments(template_arguments));
  const llama_vocab* vocab = impl_->tokenizer.raw();
  // The rendering has no BOS of its own then; and an EOS behind a generation prompt would end the answer.
  const std::size_t bos = llama_vocab_get_add_bos(vocab) ? 1 : 0;

  try {
    const std::vector<common_chat_msg> parsed = parse_messages(checked);
    const std::string text = impl_->render(parsed, parsed.size(), template_arguments, true, Rendering::full);
    ChatPrompt prompt;
    prompt.tokens = impl_->encode(text, checked, template_arguments);
    if (bos == 1) prompt.tokens.insert(prompt.tokens.begin(), llama_vocab_bos(vocab));
    if (prompt.tokens.size() > static_cast<std::size_t>(longest)) return prompt;
    const std::vector<std::size_t> ends = token_ends(impl_->tokenizer, text, prompt.tokens, bos);
    prompt.message_ends = impl_->message_ends(parsed, template_arguments, text, ends);
    if (!prompt.message_ends.empty() && prompt.message_ends.back() == static_cast<Depth>(prompt.tokens.size()))
      prompt.message_ends.pop_back();
    return prompt;
  } catch (const std::exception& exception) {
    return fail(ErrorCode::chat_template_failed, {{"reason", exception.what()}});
  }
}

}  // namespace stemma
