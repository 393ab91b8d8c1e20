#include "support/test_models.h"

#include <gguf.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "models/gguf_file.h"
#include "models/synthetic.h"

namespace stemma::test {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "stemma-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(result).value();
}

struct SmallVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;
  std::uint32_t end_of_text = 0;
  std::uint32_t end_of_turn = 0;
};

SmallVocabulary cut_vocabulary(const GgufFile& full) {
  constexpr std::size_t kOrdinary = 2032;
  constexpr std::size_t kSpecial = 16;
  constexpr std::int64_t kNormalType = 1;
  const auto tokens = *value_or_throw(full.find_strings("tokenizer.ggml.tokens"));
  const auto types = *value_or_throw(full.find_ints("tokenizer.ggml.token_type"));
  const auto merges = *value_or_throw(full.find_strings("tokenizer.ggml.merges"));

  SmallVocabulary small;
  std::set<std::string_view> kept;
  for (std::size_t i = 0; i < kOrdinary; ++i) {
    small.tokens.emplace_back(tokens[i]);
    small.types.push_back(static_cast<std::int32_t>(types[i]));
    kept.insert(tokens[i]);
  }
  for (std::size_t i = kOrdinary; i < tokens.size() && small.tokens.size() < kOrdinary + kSpecial; ++i) {
    if (types[i] == kNormalType) continue;
    if (tokens[i] == "<|endoftext|>") small.end_of_text = static_cast<std::uint32_t>(small.tokens.size());
    if (tokens[i] == "<|im_end|>") small.end_of_turn = static_cast<std::uint32_t>(small.tokens.size());
    small.tokens.emplace_back(tokens[i]);
    small.types.push_back(static_cast<std::int32_t>(types[i]));
  }
  for (const std::string_view merge : merges) {
    const std::size_t space = merge.find(' ');
    const std::string left(merge.substr(0, space));
    const std::string right(merge.substr(space + 1));
    if (kept.contains(left) && kept.contains(right) && kept.contains(left + right)) small.merges.emplace_back(merge);
  }
  return small;
}

void set_strings(gguf_context* out, const char* key, const std::vector<std::string>& values) {
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  gguf_set_arr_str(out, key, pointers.data(), pointers.size());
}

void write_small_vocabulary(const std::string& path) {
  const std::string full_path = std::string(STEMMA_LLAMA_CPP_DIR) + "/models/ggml-vocab-qwen35.gguf";
  const auto full = value_or_throw(GgufFile::open(full_path));
  const SmallVocabulary small = cut_vocabulary(*full);
  const std::string chat_template(*value_or_throw(full->find_string("tokenizer.chat_template")));

  const std::unique_ptr<gguf_context, decltype(&gguf_free)> out(gguf_init_empty(), gguf_free);
  gguf_set_val_str(out.get(), "general.architecture", "qwen35");
  gguf_set_val_str(out.get(), "tokenizer.ggml.model", "gpt2");
  gguf_set_val_str(out.get(), "tokenizer.ggml.pre", "qwen35");
  set_strings(out.get(), "tokenizer.ggml.tokens", small.tokens);
  gguf_set_arr_data(out.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32, small.types.data(), small.types.size());
  set_strings(out.get(), "tokenizer.ggml.merges", small.merges);
  gguf_set_val_u32(out.get(), "tokenizer.ggml.eos_token_id", small.end_of_turn);
  gguf_set_val_u32(out.get(), "tokenizer.ggml.bos_token_id", small.end_of_text);
  gguf_set_val_u32(out.get(), "tokenizer.ggml.padding_token_id", small.end_of_text);
  gguf_set_val_str(out.get(), "tokenizer.chat_template", chat_template.c_str());
  if (!gguf_write_to_file(out.get(), path.c_str(), true)) throw std::runtime_error("cannot write " + path);
}

}  // namespace

const std::string& temporary_directory() {
  static const TemporaryDirectory directory;
  return directory.path();
}

std::string small_vocabulary() {
  const std::string path = temporary_directory() + "/vocabulary.gguf";
  if (!std::filesystem::exists(path)) write_small_vocabulary(path);
  return path;
}

std::string tiny_model(const std::string& architecture, const std::string& type, const std::string& preset,
                       std::uint64_t seed) {
  const std::string path = temporary_directory() + "/" + architecture + "-" + preset + "-" + type + "-" +
                           std::to_string(seed) + ".gguf";
  if (std::filesystem::exists(path)) return path;
  const auto status = write_synthetic_model({.architecture = architecture,
                                             .preset = preset,
                                             .type = type,
                                             .seed = seed,
                                             .vocabulary_path = small_vocabulary(),
                                             .output_path = path});
  if (!status) throw std::runtime_error(status.error().to_string());
  return path;
}

}  // namespace stemma::test
