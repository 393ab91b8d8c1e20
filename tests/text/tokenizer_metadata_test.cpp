// A tokenizer's metadata with one thing wrong at a time: an error that names it, before libllama sees the file.

#include "text/tokenizer_metadata.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf.h"
#include "vocabularies.h"

namespace stemma {
namespace {

using testing::HasSubstr;

// A vocabulary of five tokens and the 256 bytes, to be changed and then written to a file.
struct Vocabulary {
  explicit Vocabulary(const std::string& model) {
    strings["general.architecture"] = "llama";
    strings["tokenizer.ggml.model"] = model;
    strings["tokenizer.ggml.pre"] = "default";
    auto& tokens = lists["tokenizer.ggml.tokens"] = {"a", "b", "ab", "<s>", "</s>"};
    for (int byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof(text), "<0x%02X>", byte);
      tokens.push_back(text);
    }
    lists["tokenizer.ggml.merges"] = {"a b"};
    scores.assign(tokens.size(), -1);
    types.assign(tokens.size(), 1);
    ids["tokenizer.ggml.bos_token_id"] = 3;
  }

  std::map<std::string, std::string> strings;
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::int64_t> ids;
  std::vector<float> scores;
  std::vector<std::int32_t> types;

  void write(const std::string& path) const {
    gguf_context* context = gguf_init_empty();
    for (const auto& [key, value] : strings) gguf_set_val_str(context, key.c_str(), value.c_str());
    for (const auto& [key, value] : ids) {
      if (value >= 0)
        gguf_set_val_u32(context, key.c_str(), static_cast<std::uint32_t>(value));
      else
        gguf_set_val_i32(context, key.c_str(), static_cast<std::int32_t>(value));
    }
    for (const auto& [key, values] : lists) {
      std::vector<const char*> pointers;
      for (const std::string& value : values) pointers.push_back(value.c_str());
      gguf_set_arr_str(context, key.c_str(), pointers.data(), pointers.size());
    }
    gguf_set_arr_data(context, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
    gguf_set_arr_data(context, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    // A list for what should be text, and text for what should be numbers.
    if (strings.contains(other_kind) || lists.contains(other_kind))
      gguf_set_arr_data(context, other_kind.c_str(), GGUF_TYPE_BOOL, "\0\1", 2);
    else if (!other_kind.empty())
      gguf_set_val_str(context, other_kind.c_str(), "x");
    gguf_write_to_file(context, path.c_str(), true);
    gguf_free(context);
  }

  Status check() const {
    const std::string path = testing::TempDir() + "/vocabulary.gguf";
    write(path);
    const auto file = GgufFile::open(path);
    std::filesystem::remove(path);
    if (!file) return tl::unexpected<Error>(file.error());
    return check_tokenizer_metadata(**file);
  }

  std::string other_kind;  // a key to be written with another kind of value
};

void expect_error(const Vocabulary& file, ErrorCode code, const std::string& words) {
  const Status status = file.check();
  ASSERT_FALSE(status) << words;
  EXPECT_EQ(status.error().code(), code) << status.error().to_string();
  EXPECT_THAT(status.error().message(), HasSubstr(words));
}

void expect_bad(const std::string& model, const std::function<void(Vocabulary&)>& change, const std::string& words) {
  Vocabulary file(model);
  ASSERT_TRUE(file.check()) << file.check().error().to_string();
  change(file);
  expect_error(file, ErrorCode::tokenizer_bad_metadata, words);
}

TEST(TokenizerMetadata, Tokens) {
  expect_bad("gpt2", [](auto& f) { f.lists.erase("tokenizer.ggml.tokens"); }, "tokens is missing");
  expect_bad("gpt2", [](auto& f) { f.lists["tokenizer.ggml.tokens"].clear(); }, "tokens is missing or empty");
  expect_bad("gpt2", [](auto& f) { f.lists["tokenizer.ggml.tokens"][4] = "ab"; }, "token 4 appears twice");
  // libllama gives the empty token 4 this name.
  expect_bad("gpt2",
             [](auto& f) {
               f.lists["tokenizer.ggml.tokens"][0] = "[EMPTY_4]";
               f.lists["tokenizer.ggml.tokens"][4] = "";
             },
             "token 4 appears twice");
  expect_bad("gpt2", [](auto& f) { f.lists["tokenizer.ggml.tokens"][1] = std::string(70000, 'x'); }, "token 1 is longer");
}

TEST(TokenizerMetadata, ScoresAndTypes) {
  expect_bad("llama", [](auto& f) { f.scores.pop_back(); }, "scores has 260 entries for 261");
  expect_bad("llama", [](auto& f) { f.types.push_back(1); }, "token_type has 262 entries");
  expect_bad("llama", [](auto& f) { f.scores[7] = std::nan(""); }, "entry 7 is not a number");
}

TEST(TokenizerMetadata, Merges) {
  expect_bad("gpt2", [](auto& f) { f.lists.erase("tokenizer.ggml.merges"); }, "merges is missing");
  for (const char* merge : {"", "ab", " a", "a "})
    expect_bad("gpt2", [&](auto& f) { f.lists["tokenizer.ggml.merges"].push_back(merge); }, "merges: entry 1");
}

TEST(TokenizerMetadata, SpecialTokens) {
  expect_bad("gpt2", [](auto& f) { f.ids["tokenizer.ggml.eos_token_id"] = 261; }, "eos_token_id is 261");
  expect_bad("gpt2", [](auto& f) { f.ids["tokenizer.ggml.bos_token_id"] = -2; }, "bos_token_id is -2");
  Vocabulary none("gpt2");
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{4294967295}}) {
    none.ids["tokenizer.ggml.bos_token_id"] = id;
    EXPECT_TRUE(none.check());
  }
}

TEST(TokenizerMetadata, BytesOfSentencePiece) {
  expect_bad("llama", [](auto& f) { f.lists["tokenizer.ggml.tokens"][5 + 0xC3] = "c3"; }, "byte token <0xC3>");
  Vocabulary plain("llama");
  plain.lists["tokenizer.ggml.tokens"][5 + 'x'] = "x";
  EXPECT_TRUE(plain.check());
}

TEST(TokenizerMetadata, OtherKinds) {
  for (const char* model : {"none", "bert", "t5", "rwkv", "plamo2", "hybriddna", "invented"}) {
    expect_error(Vocabulary(model), ErrorCode::tokenizer_unsupported, model);
  }
  Vocabulary file("gpt2");
  file.strings["tokenizer.ggml.pre"] = "whitespace";
  expect_error(file, ErrorCode::tokenizer_unsupported, "whitespace");
  file.strings.erase("tokenizer.ggml.model");
  expect_error(file, ErrorCode::tokenizer_unsupported, "no vocabulary");
}

TEST(TokenizerMetadata, KeysOfAnotherKind) {
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
                          "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.add_bos_token", "tokenizer.ggml.pre"}) {
    Vocabulary file("gpt2");
    file.other_kind = key;
    expect_error(file, ErrorCode::gguf_bad_metadata, key);
  }
}

TEST(TokenizerMetadata, FilesOfModelsPass) {
  for (const char* name : {"qwen35", "qwen2", "llama-bpe", "llama-spm", "phi-3", "gemma-4", "gpt-2", "deepseek-llm"})
    EXPECT_TRUE(check_tokenizer_metadata(*open_vocabulary(name))) << name;
  const Status bert = check_tokenizer_metadata(*open_vocabulary("bert-bge"));
  ASSERT_FALSE(bert);
  EXPECT_EQ(bert.error().code(), ErrorCode::tokenizer_unsupported);
}

// A file of llama.cpp's with some keys changed, under a name of its own.
class ChangedFile {
 public:
  ChangedFile(const std::string& vocabulary, const std::function<void(gguf_context*)>& change)
      : path_(testing::TempDir() + "/changed-" + vocabulary + ".gguf") {
    gguf_context* context = gguf_init_from_file(vocabulary_path(vocabulary).c_str(), {true, nullptr});
    change(context);
    gguf_write_to_file(context, path_.c_str(), true);
    gguf_free(context);
  }
  ~ChangedFile() { std::filesystem::remove(path_); }

  Result<std::unique_ptr<Tokenizer>> load() const {
    STEMMA_TRY(const auto file, GgufFile::open(path_));
    return Tokenizer::load(*file);
  }

 private:
  std::string path_;
};

// What only libllama knows is its own error, with libllama's reason.
TEST(TokenizerMetadata, UnknownPreTokenizer) {
  const ChangedFile file("gpt-2", [](gguf_context* g) { gguf_set_val_str(g, "tokenizer.ggml.pre", "invented"); });
  const auto tokenizer = file.load();
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::tokenizer_unsupported);
  EXPECT_THAT(tokenizer.error().message(), HasSubstr("unknown pre-tokenizer type: 'invented'"));
}

TEST(TokenizerMetadata, UnknownArchitecture) {
  const ChangedFile file("gpt-2", [](gguf_context* g) { gguf_set_val_str(g, "general.architecture", "invented"); });
  const auto tokenizer = file.load();
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::tokenizer_unsupported);
  EXPECT_THAT(tokenizer.error().message(), HasSubstr("invented"));
}

// libllama asserts that the BOS that it shall add exists.
TEST(TokenizerMetadata, BosWantedButMissing) {
  const ChangedFile file("gpt-2", [](gguf_context* g) {
    gguf_set_val_str(g, "tokenizer.ggml.pre", "glm4");  // has no BOS of its own
    gguf_remove_key(g, "tokenizer.ggml.bos_token_id");
    gguf_set_val_bool(g, "tokenizer.ggml.add_bos_token", true);
  });
  const auto tokenizer = file.load();
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::tokenizer_bad_metadata);
  EXPECT_THAT(tokenizer.error().message(), HasSubstr("BOS"));
}

// Files with flipped bytes: an error or a tokenizer that works, never the end of the process.
TEST(TokenizerMetadata, MutatedFiles) {
  const std::string path = testing::TempDir() + "/mutated.gguf";
  std::mt19937 random(3);
  int refused = 0, loaded = 0;
  for (const char* model : {"llama", "gpt2"}) {
    Vocabulary(model).write(path);
    const auto tokenizer = Tokenizer::load(**GgufFile::open(path));
    ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  }
  for (int round = 0; round < 400; ++round) {
    Vocabulary(round % 2 == 0 ? "llama" : "gpt2").write(path);
    std::ifstream input(path, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(input), {});
    for (unsigned flips = 1 + random() % 8; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    std::ofstream(path, std::ios::binary) << bytes;
    const auto file = GgufFile::open(path);
    const auto tokenizer = file ? Tokenizer::load(**file) : tl::unexpected<Error>(file.error());
    tokenizer ? ++loaded : ++refused;
    if (tokenizer) (*tokenizer)->encode("Hello, w\xc3\xb6rld \xf0\x9f\x98\x80 \x01", true, true);
  }
  std::filesystem::remove(path);
  EXPECT_GT(refused, 20);
  EXPECT_GT(loaded, 20);
}

}  // namespace
}  // namespace stemma
