#include "text/tokenizer_metadata.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace stemma {

namespace {

// Ids are 32 bits, and libllama keeps each token's text and piece in memory.
constexpr std::size_t kMaxTokens = std::size_t{1} << 24;
constexpr std::size_t kMaxTokenBytes = std::size_t{1} << 16;

// libllama's spelling, "seperator" included.
constexpr std::array kSpecialTokenKeys = {
    "tokenizer.ggml.bos_token_id",       "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",       "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id",   "tokenizer.ggml.seperator_token_id",
    "tokenizer.ggml.padding_token_id",   "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.fim_pre_token_id",   "tokenizer.ggml.fim_suf_token_id",
    "tokenizer.ggml.fim_mid_token_id",   "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",   "tokenizer.ggml.fim_sep_token_id",
    "tokenizer.ggml.prefix_token_id",    "tokenizer.ggml.suffix_token_id",
    "tokenizer.ggml.middle_token_id",
};

constexpr std::array kFlagKeys = {
    "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_sep_token",
    "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces",
};

class MetadataCheck {
 public:
  explicit MetadataCheck(const GgufFile& file) : file_(file) {}

  Status run() {
    STEMMA_CHECK(read_model());
    STEMMA_CHECK(check_tokens());
    STEMMA_CHECK(check_scores_and_types());
    STEMMA_CHECK(check_merges());
    STEMMA_CHECK(check_special_tokens());
    return check_bytes();
  }

 private:
  tl::unexpected<Error> bad(std::string reason) const {
    return fail(ErrorCode::tokenizer_bad_metadata, {{"file", file_.path()}, {"reason", std::move(reason)}});
  }

  tl::unexpected<Error> unsupported(std::string reason) const {
    return fail(ErrorCode::tokenizer_unsupported,
                {{"file", file_.path()}, {"model", model_}, {"pre", pre_}, {"reason", std::move(reason)}});
  }

  Status read_model() {
    STEMMA_TRY(const auto model, file_.find_string("tokenizer.ggml.model"));
    STEMMA_TRY(const auto pre, file_.find_string("tokenizer.ggml.pre"));
    model_ = model.value_or("none");
    pre_ = pre.value_or("none");
    if (model_ == "none" || model_ == "no_vocab") return unsupported("the file holds no vocabulary");
    // The others (t5, bert, rwkv, plamo2, ...) belong to architectures that Stemma does not run.
    if (model_ != "gpt2" && model_ != "llama" && model_ != "gemma4")
      return unsupported("known are gpt2, llama and gemma4");
    if (pre_ == "whitespace") return unsupported("it is for embedding models");
    STEMMA_CHECK(file_.find_string("tokenizer.chat_template"));
    return {};
  }

  Status check_tokens() {
    STEMMA_TRY(const auto tokens, file_.find_strings("tokenizer.ggml.tokens"));
    if (!tokens || tokens->empty()) return bad("tokenizer.ggml.tokens is missing or empty");
    if (tokens->size() > kMaxTokens) return bad("tokenizer.ggml.tokens has " + std::to_string(tokens->size()) + " entries");
    size_ = tokens->size();
    words_.reserve(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      if ((*tokens)[i].size() > kMaxTokenBytes) return bad("token " + std::to_string(i) + " is longer than 64 KiB");
      if (!words_.insert(libllama_word((*tokens)[i], i)).second)
        return bad("token " + std::to_string(i) + " appears twice in tokenizer.ggml.tokens");
    }
    return {};
  }

  // libllama reads tokens as C strings and gives empty ones a name.
  static std::string libllama_word(std::string_view text, std::size_t index) {
    text = text.substr(0, text.find('\0'));
    return text.empty() ? "[EMPTY_" + std::to_string(index) + "]" : std::string(text);
  }

  Status check_scores_and_types() const {
    STEMMA_TRY(const auto scores, file_.find_floats("tokenizer.ggml.scores"));
    if (scores) {
      if (scores->size() != size_) return bad(count_mismatch("tokenizer.ggml.scores", scores->size()));
      for (std::size_t i = 0; i < size_; ++i)
        if (std::isnan((*scores)[i])) return bad("tokenizer.ggml.scores: entry " + std::to_string(i) + " is not a number");
    }
    STEMMA_TRY(const auto types, file_.find_ints("tokenizer.ggml.token_type"));
    if (types && types->size() != size_) return bad(count_mismatch("tokenizer.ggml.token_type", types->size()));
    return {};
  }

  std::string count_mismatch(std::string_view key, std::size_t count) const {
    return std::string(key) + " has " + std::to_string(count) + " entries for " + std::to_string(size_) + " tokens";
  }

  Status check_merges() const {
    STEMMA_TRY(const auto merges, file_.find_strings("tokenizer.ggml.merges"));
    if (!merges) {
      if (model_ == "llama" || pre_ == "kimi-k2") return {};
      return bad("tokenizer.ggml.merges is missing");
    }
    for (std::size_t i = 0; i < merges->size(); ++i) {
      const std::string_view merge = (*merges)[i];
      const std::size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == merge.size())
        return bad("tokenizer.ggml.merges: entry " + std::to_string(i) + " is not two parts with a space between them");
    }
    return {};
  }

  Status check_special_tokens() const {
    for (const char* key : kSpecialTokenKeys) {
      STEMMA_TRY(const auto id, file_.find_int(key));
      // Exporters write "none" as -1, in 32 bits of either sign.
      if (!id || *id == -1 || *id == std::numeric_limits<std::uint32_t>::max()) continue;
      if (*id < 0 || static_cast<std::size_t>(*id) >= size_)
        return bad(std::string(key) + " is " + std::to_string(*id) + ", outside the " + std::to_string(size_) + " tokens");
    }
    for (const char* key : kFlagKeys) STEMMA_CHECK(file_.find_bool(key));
    return {};
  }

  // A SentencePiece vocabulary spells characters that it lacks byte by byte; libllama throws where a byte has no token.
  Status check_bytes() const {
    if (model_ != "llama") return {};
    constexpr std::string_view hex = "0123456789ABCDEF";
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string spelled = {'<', '0', 'x', hex[byte >> 4], hex[byte & 15], '>'};
      if (words_.contains(spelled)) continue;
      if (byte != 0 && words_.contains(std::string(1, static_cast<char>(byte)))) continue;
      return bad("the byte token " + spelled + " is missing");
    }
    return {};
  }

  const GgufFile& file_;
  std::string model_;
  std::string pre_;
  std::size_t size_ = 0;
  std::unordered_set<std::string> words_;
};

}  // namespace

Status check_tokenizer_metadata(const GgufFile& file) { return MetadataCheck(file).run(); }

}  // namespace stemma
