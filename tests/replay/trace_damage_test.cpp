// Whatever a trace file holds, reading it gives a trace or an error: never a crash, never
// gigabytes.

#include <random>

#include "small_traces.h"

namespace stemma::replay {
namespace {

class Damaged : public ::testing::TestWithParam<std::string> {
 protected:
  // The answer is an error with a place, or a trace that can be walked.
  static void check(const std::string& text) {
    const auto trace = test::read(text);
    if (!trace) {
      const ErrorCode code = trace.error().code();
      EXPECT_TRUE(code == ErrorCode::trace_bad_line || code == ErrorCode::trace_unknown_format ||
                  code == ErrorCode::trace_empty)
          << trace.error().to_string();
      return;
    }
    PathCursor cursor;
    const auto unit = unit_size(*trace, trace->block_tokens);
    ASSERT_TRUE(unit);
    for (const Chain& chain : trace->chains) {
      PathCursor path;
      for (std::uint32_t i = 0; i < chain.request_count; ++i) {
        path.advance(*trace, chain.first_request + i, *unit);
        EXPECT_GE(path.demand().path.size(), static_cast<std::size_t>(path.demand().prompt));
      }
    }
  }
};

TEST_P(Damaged, CutOffAnywhere) {
  for (std::size_t length = 0; length < GetParam().size(); ++length)
    check(GetParam().substr(0, length));
}

TEST_P(Damaged, OneByteReplacedAnywhere) {
  for (std::size_t at = 0; at < GetParam().size(); ++at) {
    for (const char c : {'9', '-', '"', '[', '\0', '\n', '\xff'}) {
      std::string text = GetParam();
      text[at] = c;
      check(text);
    }
  }
}

TEST_P(Damaged, PiecesMoved) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text = GetParam();
    const std::size_t from = random() % text.size();
    const std::size_t count = random() % 40;
    const std::string piece = text.substr(from, count);
    if (random() % 2 == 0) text.erase(from, count);
    text.insert(random() % (text.size() + 1), piece);
    check(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Damaged,
                         ::testing::Values(test::kMooncake, test::kAgentCoding, test::kBailian,
                                           test::kMarconi, test::kAzure));

TEST(DamagedTrace, HugeNumbersAreRefusedBeforeAnythingIsMadeOfThem) {
  EXPECT_FALSE(test::read(
      R"({"timestamp": 0, "input_length": 1e300, "output_length": 1, "hash_ids": [1]})"));
  EXPECT_FALSE(test::read(
      R"({"timestamp": 0, "input_length": 512, "output_length": 99999999999, "hash_ids": [1]})"));
  EXPECT_FALSE(test::read(
      R"({"block_size": 64, "tool_tokens": 0, "system_tokens": 0, "requests": [{"in": 64, "out": 1, "keep": 0, "add": [[1, 4000000000]]}]})"));
  EXPECT_FALSE(test::read(
      R"({"block_size": 64, "tool_tokens": 0, "system_tokens": 0, "requests": [{"in": 64, "out": 1, "keep": 1, "add": []}]})"));
}

}  // namespace
}  // namespace stemma::replay
