#include "text/text_stream.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "vocabularies.h"

namespace stemma {
namespace {

const std::string kReplacement = "\xef\xbf\xbd";

std::string assemble(const std::vector<std::string>& pieces) {
  Utf8Assembler assembler;
  std::string text;
  for (const std::string& piece : pieces) text += assembler.push(piece);
  return text + assembler.finish();
}

TEST(Utf8Assembler, HoldsUnfinishedCharacters) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.push("a\xf0\x9f"), "a");
  EXPECT_EQ(assembler.push("\x98"), "");
  EXPECT_EQ(assembler.push("\x80z"), "\xf0\x9f\x98\x80z");
  EXPECT_EQ(assembler.finish(), "");
  EXPECT_EQ(assembler.push("\xc3"), "");
  EXPECT_EQ(assembler.finish(), kReplacement);
  EXPECT_EQ(assembler.finish(), "");
}

// The Unicode standard's own examples, tables 3-8 to 3-11.
TEST(Utf8Assembler, ReplacesMaximalParts) {
  const auto replaced = [](int count) {
    std::string text;
    while (count-- > 0) text += kReplacement;
    return text;
  };
  EXPECT_EQ(assemble({"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"}), replaced(8) + "A");
  EXPECT_EQ(assemble({"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"}), replaced(8) + "A");
  EXPECT_EQ(assemble({"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"}), replaced(5) + "A" + replaced(2) + "B");
  EXPECT_EQ(assemble({"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"}), replaced(4) + "A");
}

TEST(Utf8Assembler, CutsDoNotMatter) {
  std::mt19937 random(5);
  const std::string bytes("\x41\x80\xbf\xc3\xa9\xe2\x82\xac\xed\xa0\xf0\x9f\x98\x80\xf4\x90\xff\xc0", 18);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    std::vector<std::string> single, pieces(1);
    for (unsigned n = random() % 20; n > 0; --n) {
      const char byte = bytes[random() % bytes.size()];
      text += byte;
      single.emplace_back(1, byte);
      if (random() % 3 == 0) pieces.emplace_back();
      pieces.back() += byte;
    }
    EXPECT_EQ(assemble({text}), assemble(single));
    EXPECT_EQ(assemble({text}), assemble(pieces));
  }
}

struct Outcome {
  std::string text;
  std::optional<std::size_t> stop;
  bool operator==(const Outcome&) const = default;
};

// What StopScanner promises, over the whole text: the match that ends first, then the longest, then the first listed.
Outcome reference(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < stops.size(); ++i)
      if (std::string_view(text).substr(0, end).ends_with(stops[i]) &&
          (!found || stops[i].size() > stops[*found].size()))
        found = i;
    if (found) return {text.substr(0, end - stops[*found].size()), found};
  }
  return {text, std::nullopt};
}

// The longest suffix of `text` that may become a stop string.
std::size_t must_hold(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops)
    for (std::size_t n = 1; n < stop.size(); ++n)
      if (text.ends_with(stop.substr(0, n))) longest = std::max(longest, n);
  return longest;
}

TEST(StopScanner, AgreesWithTheReferenceHoweverTextIsCut) {
  std::mt19937 random(7);
  const auto random_text = [&](std::size_t length) {
    std::string text(length, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = random_text(1 + random() % 6);
    const std::string text = random_text(random() % 30);
    const Outcome expected = reference(text, stops);
    StopScanner scanner(stops);
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t length = 1 + random() % 5;
      out += scanner.push(std::string_view(text).substr(begin, length));
      begin += length;
      if (scanner.found()) continue;
      const std::string so_far = text.substr(0, begin);
      EXPECT_EQ(out.size(), so_far.size() - must_hold(so_far, stops));  // neither too little nor too much
    }
    out += scanner.finish();
    EXPECT_EQ((Outcome{out, scanner.found()}), expected) << text;
    stopped += expected.stop.has_value();
  }
  EXPECT_GT(stopped, 1000);
}

class TextStreamTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { tokenizer_ = load_tokenizer("qwen35"); }
  static void TearDownTestSuite() { tokenizer_.reset(); }

  static Outcome stream(const std::string& text, const std::vector<std::string>& stops, bool special = false) {
    TextStream stream(*tokenizer_, stops, special);
    std::string out;
    for (const Token token : tokenizer_->encode(text, false, true)) out += stream.push(token);
    out += stream.finish();
    return {out, stream.stop_index()};
  }

  static std::unique_ptr<Tokenizer> tokenizer_;
};
std::unique_ptr<Tokenizer> TextStreamTest::tokenizer_;

TEST_F(TextStreamTest, GivesWholeCharactersOnly) {
  const std::string text = "na\xc3\xafve \xf0\x9f\x8f\xb3\xef\xb8\x8f\xe2\x80\x8d\xf0\x9f\x8c\x88 \xe0\xa4\xa8\xe0\xa4\xae";
  TextStream stream(*tokenizer_, {});
  std::string out;
  for (const Token token : tokenizer_->encode(text, false, false)) {
    const std::string part = stream.push(token);
    EXPECT_EQ(assemble({part}), part);
    out += part;
  }
  EXPECT_EQ(out, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST_F(TextStreamTest, StopStringsAcrossTokens) {
  EXPECT_EQ(stream("one two three", {"o thr", "zzz"}), (Outcome{"one tw", 0}));
  EXPECT_EQ(stream("one two three", {"four"}), (Outcome{"one two three", std::nullopt}));
  EXPECT_EQ(stream("one two thr", {"three"}), (Outcome{"one two thr", std::nullopt}));
  EXPECT_EQ(stream("gr\xc3\xbc\xc3\x9f dich", {"\xc3\x9f"}), (Outcome{"gr\xc3\xbc", 0}));
}

TEST_F(TextStreamTest, NothingAfterTheStop) {
  TextStream stream(*tokenizer_, {"two"});
  std::string out;
  for (const Token token : tokenizer_->encode("one two three", false, false)) out += stream.push(token);
  EXPECT_EQ(out, "one ");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push(tokenizer_->encode("x", false, false).front()), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST_F(TextStreamTest, ControlTokensHaveTextIfAskedFor) {
  EXPECT_EQ(stream("a<|im_end|>b", {}).text, "ab");
  EXPECT_EQ(stream("a<|im_end|>b", {}, true).text, "a<|im_end|>b");
}

TEST_F(TextStreamTest, UnfinishedCharacterAtTheEnd) {
  const std::vector<Token> tokens = tokenizer_->encode("\xf0\x9f\xab\xa8", false, false);  // more than one token
  ASSERT_GT(tokens.size(), 1u);
  TextStream stream(*tokenizer_, {});
  EXPECT_EQ(stream.push(tokens.front()), "");
  EXPECT_EQ(stream.finish(), kReplacement);
}

}  // namespace
}  // namespace stemma
