#include "text/tokenizer.h"

#include <array>

#include "llama.h"

#include "text/llama_library.h"
#include "text/long_runs.h"
#include "text/special_cuts.h"
#include "text/tokenizer_metadata.h"
#include "text/utf8_assembler.h"

namespace stemma {

namespace {

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};

// Most texts have fewer tokens than bytes / 2; a text that has more is tokenized twice.
constexpr std::size_t kBytesPerToken = 2;

}  // namespace

struct Tokenizer::Impl {
  std::unique_ptr<llama_model, ModelDeleter> model;  // vocabulary only
  const llama_vocab* vocab;
  std::string chat_template;
  std::vector<Token> end_of_generation;
  bool repairs_utf8;    // libllama throws on some invalid UTF-8 where it splits text by characters
  bool cuts_long_runs;
  TextSet specials;      // texts that become one token before libllama splits the rest
  TextSet user_defined;  // those of them that do so without parse_special, too

  void append_tokens(std::string_view text, bool parse_special, std::vector<Token>& tokens) const;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const GgufFile& file) {
  STEMMA_CHECK(check_tokenizer_metadata(file));
  start_llama_library();

  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const LlamaErrors errors;
  std::unique_ptr<llama_model, ModelDeleter> model(llama_model_load_from_file(file.path().c_str(), params));
  if (!model) {
    STEMMA_TRY(const auto kind, file.find_string("tokenizer.ggml.model"));
    STEMMA_TRY(const auto pre, file.find_string("tokenizer.ggml.pre"));
    return fail(ErrorCode::tokenizer_unsupported, {{"file", file.path()},
                                                   {"model", std::string(kind.value_or("none"))},
                                                   {"pre", std::string(pre.value_or("none"))},
                                                   {"reason", errors.first()}});
  }

  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  // libllama asserts both of these when it adds the tokens.
  const auto bad = [&](std::string reason) {
    return fail(ErrorCode::tokenizer_bad_metadata, {{"file", file.path()}, {"reason", std::move(reason)}});
  };
  if (llama_vocab_get_add_bos(vocab) && llama_vocab_bos(vocab) == LLAMA_TOKEN_NULL)
    return bad("prompts are to begin with a BOS token, and there is none");
  if (llama_vocab_get_add_eos(vocab) && llama_vocab_eos(vocab) == LLAMA_TOKEN_NULL)
    return bad("prompts are to end with an EOS token, and there is none");

  STEMMA_TRY(const auto chat_template, file.find_string("tokenizer.chat_template"));
  STEMMA_TRY(const auto pre, file.find_string("tokenizer.ggml.pre"));
  auto impl = std::make_unique<Impl>(Impl{std::move(model), vocab, std::string(chat_template.value_or("")), {}, {}, {}, {}, {}});
  impl->repairs_utf8 = llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_BPE;
  impl->cuts_long_runs = impl->repairs_utf8 && !splits_without_regex(pre.value_or("default"));
  constexpr int control = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN;
  for (Token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
    if (llama_vocab_is_eog(vocab, token)) impl->end_of_generation.push_back(token);
    const int kind = llama_vocab_get_attr(vocab, token);
    const char* text = llama_vocab_get_text(vocab, token);
    if (*text == '\0') continue;
    if (kind & (control | LLAMA_TOKEN_ATTR_USER_DEFINED)) impl->specials.insert(text);
    if (kind & LLAMA_TOKEN_ATTR_USER_DEFINED && !(kind & control)) impl->user_defined.insert(text);
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::size_t Tokenizer::size() const { return static_cast<std::size_t>(llama_vocab_n_tokens(impl_->vocab)); }

void Tokenizer::Impl::append_tokens(std::string_view text, bool parse_special, std::vector<Token>& tokens) const {
  const std::size_t before = tokens.size();
  tokens.resize(before + text.size() / kBytesPerToken + 8);
  const auto tokenize = [&] {
    return llama_tokenize(vocab, text.data(), static_cast<std::int32_t>(text.size()), tokens.data() + before,
                          static_cast<std::int32_t>(tokens.size() - before), false, parse_special);
  };
  std::int32_t count = tokenize();
  if (count < 0) {
    tokens.resize(before + static_cast<std::size_t>(-static_cast<std::int64_t>(count)));
    count = tokenize();
  }
  tokens.resize(before + static_cast<std::size_t>(count));
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  std::vector<Token> tokens;
  std::string repaired;
  if (impl_->repairs_utf8) {
    Utf8Assembler assembler;
    repaired = assembler.push(text);
    text = repaired += assembler.finish();
  }
  if (add_special && llama_vocab_get_add_bos(impl_->vocab)) tokens.push_back(llama_vocab_bos(impl_->vocab));
  for (const std::string_view part : cut_at_specials(text, parse_special ? impl_->specials : impl_->user_defined)) {
    if (!impl_->cuts_long_runs) {
      impl_->append_tokens(part, parse_special, tokens);
      continue;
    }
    for (const std::string_view run : cut_long_runs(part, impl_->specials)) impl_->append_tokens(run, parse_special, tokens);
  }
  if (add_special && llama_vocab_get_add_eos(impl_->vocab)) tokens.push_back(llama_vocab_eos(impl_->vocab));
  return tokens;
}

std::string Tokenizer::piece(Token token, bool special) const {
  if (token < 0 || static_cast<std::size_t>(token) >= size()) return {};
  std::array<char, 64> buffer;
  const std::int32_t length = llama_token_to_piece(impl_->vocab, token, buffer.data(),
                                                   static_cast<std::int32_t>(buffer.size()), 0, special);
  if (length >= 0) return std::string(buffer.data(), static_cast<std::size_t>(length));
  std::string text(static_cast<std::size_t>(-length), '\0');
  llama_token_to_piece(impl_->vocab, token, text.data(), static_cast<std::int32_t>(text.size()), 0, special);
  return text;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
  std::string text;
  for (const Token token : tokens) text += piece(token, special);
  return text;
}

bool Tokenizer::is_end_of_generation(Token token) const { return llama_vocab_is_eog(impl_->vocab, token); }

const std::vector<Token>& Tokenizer::end_of_generation() const { return impl_->end_of_generation; }

std::optional<Token> Tokenizer::bos() const {
  const Token token = llama_vocab_bos(impl_->vocab);
  return token == LLAMA_TOKEN_NULL ? std::nullopt : std::optional(token);
}

std::optional<Token> Tokenizer::eos() const {
  const Token token = llama_vocab_eos(impl_->vocab);
  return token == LLAMA_TOKEN_NULL ? std::nullopt : std::optional(token);
}

const llama_vocab* Tokenizer::raw() const { return impl_->vocab; }
const llama_model* Tokenizer::raw_model() const { return impl_->model.get(); }
const std::string& Tokenizer::chat_template() const { return impl_->chat_template; }

}  // namespace stemma
