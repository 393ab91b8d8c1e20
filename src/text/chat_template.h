#pragma once
// Chat messages to a prompt, by the model's own Jinja template (llama.cpp's common/chat).

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/ids.h"
#include "core/result.h"
#include "text/tokenizer.h"

namespace stemma {

struct ChatPrompt {
  std::vector<Token> tokens;
  std::vector<Depth> message_ends;  // depths at which a message's rendering ends, increasing, < tokens.size()
};

// Thread-safe.
class ChatTemplate {
 public:
  // `override_source`: a template to use instead of the model's own; empty = the model's, or ChatML if it has none. A template
  // is tried in a child process first (child_trial.h): one that would end or hang the process is refused.
  // Errors: `chat_template_invalid`.
  static Result<std::unique_ptr<ChatTemplate>> load(const Tokenizer& tokenizer,
                                                    const std::string& override_source = {});
  ~ChatTemplate();

  // Renders OpenAI-style `messages` (a JSON array; content a string or text parts) with `template_arguments`
  // (chat_template_kwargs; may be null) and the generation prompt, as llama-server does, and tokenizes the result once:
  // one BOS if the model wants one, no EOS. Messages that spell a control token stay text.
  //
  // message_ends come from rendering prefixes of the list: a message ends where the renderings with and without what
  // follows begin to differ, cut down to a token's end. Of more than 64 messages, the first 2 and the last 62 get ends;
  // those whose prefix the template refuses get none; nor does a prompt of more than `longest` tokens, which nobody will
  // compute. Errors: `chat_bad_messages`, `chat_template_failed`.
  // O(min(messages, 64) x prompt).
  Result<ChatPrompt> apply(const nlohmann::json& messages, const nlohmann::json& template_arguments,
                           Depth longest = std::numeric_limits<Depth>::max()) const;

  // "model", "override" or "chatml", for the log.
  std::string source() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stemma
