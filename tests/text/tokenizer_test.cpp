// The tokenizer against libllama's own, loaded by itself from the same file, and against what round trips demand.

#include "text/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "llama.h"
#include "text/long_runs.h"
#include "text/special_cuts.h"
#include "vocabularies.h"

namespace stemma {
namespace {

const std::vector<std::string> kTexts = {
    "Hello, world!",
    " leading and trailing spaces  ",
    "line one\nline two\r\n\r\n\tindented",
    "Größe, naïve façade, Übermut",
    "Привет, мир. Съешь ещё этих мягких французских булок.",
    "こんにちは世界。漢字とかな。",
    "你好，世界！一二三",
    "안녕하세요 세계",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🤷🏽‍♂️ 🇩🇪",
    "e\u0301 combining and \u200bzero width",
    "int main() { return x[0] ? 1 : 2; }  // 0x1F, 3.14e-10",
    "1234567890 12,345.67",
    "<|im_start|>user\nhi<|im_end|>",
    "'s 't 're 've 'm 'll 'd DON'T",
};

class EachVocabulary : public testing::TestWithParam<const char*> {};

struct FreeModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
};

std::vector<Token> reference_encode(const llama_vocab* vocab, const std::string& text, bool add_special,
                                    bool parse_special) {
  std::vector<Token> tokens(text.size() + 8);
  const int count = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                                   static_cast<int>(tokens.size()), add_special, parse_special);
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

TEST_P(EachVocabulary, EncodesAsLibllamaDoes) {
  const auto tokenizer = load_tokenizer(GetParam());
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const std::unique_ptr<llama_model, FreeModel> model(
      llama_model_load_from_file(vocabulary_path(GetParam()).c_str(), params));
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  EXPECT_EQ(tokenizer->size(), static_cast<std::size_t>(llama_vocab_n_tokens(vocab)));
  for (const std::string& text : kTexts)
    for (const bool add_special : {false, true})
      for (const bool parse_special : {false, true})
        EXPECT_EQ(tokenizer->encode(text, add_special, parse_special),
                  reference_encode(vocab, text, add_special, parse_special))
            << text;
}

// llama.cpp's own expectations, from the original tokenizers: ggml-vocab-*.gguf.inp and .out.
TEST_P(EachVocabulary, EncodesAsTheOriginalTokenizerDoes) {
  std::ifstream inputs(vocabulary_path(GetParam()) + ".inp"), outputs(vocabulary_path(GetParam()) + ".out");
  ASSERT_TRUE(inputs && outputs);
  const auto tokenizer = load_tokenizer(GetParam());
  std::stringstream all;
  all << inputs.rdbuf();
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::string texts = all.str(), line;
  int compared = 0;
  for (std::size_t begin = 0; begin < texts.size() && std::getline(outputs, line); ++compared) {
    const std::size_t end = std::min(texts.find(separator, begin), texts.size());
    std::istringstream numbers(line);
    const std::vector<Token> expected(std::istream_iterator<Token>(numbers), {});
    EXPECT_EQ(tokenizer->encode(texts.substr(begin, end - begin), false, false), expected) << "text " << compared;
    begin = end + separator.size();
  }
  EXPECT_GT(compared, 30);
}

TEST_P(EachVocabulary, DecodesWhatItEncoded) {
  const auto tokenizer = load_tokenizer(GetParam());
  // SentencePiece vocabularies put a space before the text.
  const std::string first = tokenizer->decode(tokenizer->encode("a", false, false), false);
  const std::string lead = first == "a" ? "" : " ";
  for (const std::string& text : kTexts)
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, false), true), lead + text);
  EXPECT_TRUE(tokenizer->encode("", false, false).empty());
  EXPECT_EQ(tokenizer->decode({}, true), "");
}

TEST_P(EachVocabulary, TokenizesAnyBytes) {
  const auto tokenizer = load_tokenizer(GetParam());
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 40, '\0');
    for (char& byte : text) byte = static_cast<char>(random() % 256);
    for (const Token token : tokenizer->encode(text, true, true)) {
      EXPECT_GE(token, 0);
      EXPECT_LT(static_cast<std::size_t>(token), tokenizer->size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Text, EachVocabulary, testing::Values("qwen35", "qwen2", "llama-bpe", "llama-spm", "phi-3"),
                         [](const auto& vocabulary) {
                           std::string name = vocabulary.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Tokenizer, ControlTextIsATokenOnlyWhereAskedFor) {
  const auto tokenizer = load_tokenizer("qwen35");
  const std::vector<Token> token = tokenizer->encode("<|im_end|>", false, true);
  ASSERT_EQ(token.size(), 1u);
  EXPECT_TRUE(tokenizer->is_end_of_generation(token[0]));
  EXPECT_EQ(tokenizer->piece(token[0], true), "<|im_end|>");
  EXPECT_EQ(tokenizer->piece(token[0], false), "");
  EXPECT_GT(tokenizer->encode("<|im_end|>", false, false).size(), 1u);
}

TEST(Tokenizer, EndOfGenerationTokensAreTheListedOnes) {
  const auto tokenizer = load_tokenizer("qwen35");
  std::vector<Token> expected;
  for (Token token = 0; token < static_cast<Token>(tokenizer->size()); ++token)
    if (tokenizer->is_end_of_generation(token)) expected.push_back(token);
  EXPECT_EQ(tokenizer->end_of_generation(), expected);
  ASSERT_TRUE(tokenizer->eos());
  EXPECT_TRUE(tokenizer->is_end_of_generation(*tokenizer->eos()));
}

// Random texts of words, spaces and special tokens, some of which begin like others: the same tokens as libllama gives to the
// whole, which takes it the longer the more of them there are.
TEST_P(EachVocabulary, ManySpecialTokensAreTokenizedAsLibllamaDoes) {
  const auto tokenizer = load_tokenizer(GetParam());
  std::vector<std::string> pieces = {"word", " ", "\n", "<", "<|", "  x", "\xf0\x9f\x8c\x8a"};
  for (Token token = 0; token < static_cast<Token>(tokenizer->size()) && pieces.size() < 40; ++token) {
    const int kind = llama_vocab_get_attr(tokenizer->raw(), token);
    if (kind & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED)) {
      pieces.push_back(llama_vocab_get_text(tokenizer->raw(), token));
    }
  }
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    std::string text;
    for (int i = 0; i < 12'000; ++i) text += pieces[random() % pieces.size()];
    for (const bool parse_special : {false, true}) {
      EXPECT_TRUE(tokenizer->encode(text, false, parse_special) ==
                  reference_encode(tokenizer->raw(), text, false, parse_special));
    }
  }
}

TEST(SpecialCuts, CutOnlyWhereNothingIsChanged) {
  TextSet specials;
  for (const char* text : {"<s>", "<s><t>", "aa"}) specials.insert(text);
  EXPECT_EQ(cut_at_specials("", specials), (std::vector<std::string_view>{""}));
  const auto repeat = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  for (const auto& [text, cuts] : {std::pair{repeat("x<s>", 5000), true}, {repeat("<s>", 5000), true},
                                   {repeat("<s><t>", 5000), true},    // the longer one, whole
                                   {repeat(" <s>", 5000), false},     // white space, which the token might swallow
                                   {repeat("aaa", 5000), false}}) {   // no appearance is alone
    const auto parts = cut_at_specials(text, specials);
    EXPECT_EQ(parts.size() > 1, cuts) << text.substr(0, 12);
    std::string joined;
    for (const std::string_view part : parts) {
      joined += part;
      EXPECT_TRUE(joined.size() == part.size() || part.starts_with("<s>"));
    }
    EXPECT_EQ(joined, text);
  }
}

// One character 50,000 times: a regular expression that matches it whole would overflow the stack.
TEST(Tokenizer, LongRuns) {
  for (const char* name : {"qwen35", "llama-bpe", "llama-spm", "deepseek-llm", "deepseek-coder", "falcon", "gemma-4"}) {
    const auto tokenizer = load_tokenizer(name);
    for (const char* unit : {"a", " ", "!", "\n", "7", "\xe6\xbc\xa2"}) {
      std::string text;
      for (int i = 0; i < 50'000; ++i) text += unit;
      const std::string decoded = tokenizer->decode(tokenizer->encode(text, false, false), false);
      EXPECT_TRUE(decoded == text || decoded == " " + text) << name << " " << unit;
    }
  }
}

TEST(LongRuns, CutsOnlyWhereItMust) {
  TextSet whole;
  whole.insert("<|im_end|>");
  const auto parts = [&](const std::string& text) {
    std::vector<std::size_t> lengths;
    for (const std::string_view part : cut_long_runs(text, whole)) lengths.push_back(part.size());
    return lengths;
  };
  using Lengths = std::vector<std::size_t>;
  const std::string run(8192, 'a');
  EXPECT_EQ(parts(""), (Lengths{0}));
  EXPECT_EQ(parts(run + " " + run), (Lengths{16385}));
  EXPECT_EQ(parts(run + run), (Lengths{8192, 8192}));
  EXPECT_EQ(parts(run + std::string(3, ' ') + run + "b"), (Lengths{8192 + 3 + 8192, 1}));
  EXPECT_EQ(parts(std::string(8190, 'a') + "<|im_end|>" + "b"), (Lengths{8190, 11}));
  std::string wide;
  for (int i = 0; i < 9000; ++i) wide += "\xe6\xbc\xa2";
  EXPECT_EQ(parts(wide), (Lengths{3 * 8192, 3 * (9000 - 8192)}));
}

TEST(Tokenizer, IdsOutsideTheVocabularyHaveNoText) {
  const auto tokenizer = load_tokenizer("qwen35");
  EXPECT_EQ(tokenizer->piece(-1, true), "");
  EXPECT_EQ(tokenizer->piece(static_cast<Token>(tokenizer->size()), true), "");
  EXPECT_FALSE(tokenizer->is_end_of_generation(-1));
}

TEST(Tokenizer, PutsBosWhereTheModelWantsIt) {
  const auto spm = load_tokenizer("llama-spm");
  ASSERT_TRUE(spm->bos());
  EXPECT_EQ(spm->encode("a", true, false).front(), *spm->bos());
  const auto qwen = load_tokenizer("qwen35");
  EXPECT_EQ(qwen->encode("a", true, false), qwen->encode("a", false, false));
}

}  // namespace
}  // namespace stemma
