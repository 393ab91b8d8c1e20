#include <gmock/gmock.h>

#include "small_traces.h"

namespace stemma::replay {
namespace {

using ::testing::HasSubstr;

std::vector<Token> units(const Demand& demand) { return {demand.path.begin(), demand.path.end()}; }

TEST(UnitSize, IsAPartOfTheTracesBlocks) {
  const Trace trace = test::read(test::kMooncake).value();
  EXPECT_EQ(unit_size(trace, 512)->page_units, 1);
  EXPECT_EQ(unit_size(trace, 64)->page_units, 1);
  EXPECT_EQ(unit_size(trace, 4)->page_units, 4);
  EXPECT_EQ(unit_size(trace, 1)->page_units, 16);
  EXPECT_EQ(unit_size(trace, 9999)->tokens, 512);
  EXPECT_THAT(unit_size(trace, 100).error().message(), HasSubstr("do not divide"));
}

// 1,100 tokens and an answer of 100; the next prompt has 1,600 and contains both.
TEST(PathCursor, PromptsAreWholeUnitsAndATailOfTheirOwn) {
  const Trace trace = test::read(test::kMooncake).value();
  const UnitSize blocks = unit_size(trace, 512).value();
  PathCursor path;
  path.advance(trace, 0, blocks);
  EXPECT_EQ(path.demand().prompt, 3);
  const auto first = units(path.demand());
  EXPECT_EQ(first.size(), 3u);
  path.advance(trace, 1, blocks);
  const auto next = units(path.demand());
  EXPECT_EQ(path.demand().prompt, 4);
  EXPECT_EQ(first[1], next[1]);
  EXPECT_NE(first[2], next[2]);  // the answer does not fill the unit
}

TEST(PathCursor, InTokensTheNextPromptSharesPromptAndAnswerExactly) {
  const Trace trace = test::read(test::kMooncake).value();
  const UnitSize tokens = unit_size(trace, 1).value();
  PathCursor path;
  path.advance(trace, 0, tokens);
  EXPECT_EQ(path.demand().prompt, 1100);
  const auto first = units(path.demand());
  EXPECT_EQ(first.size(), 1199u);  // the answer's last token is never computed
  path.advance(trace, 1, tokens);
  const auto next = units(path.demand());
  EXPECT_EQ(path.demand().prompt, 1600);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), next.begin()));
}

TEST(PathCursor, AnAnswerThatFillsUnitsAddsThem) {
  const Trace trace = test::read(test::kAgentCoding).value();
  const UnitSize blocks = unit_size(trace, 64).value();
  PathCursor path;
  path.advance(trace, 0,
               blocks);  // 200 tokens and 70: three whole units, a tail that the answer fills
  EXPECT_EQ(path.demand().prompt, 4);
  EXPECT_EQ(path.demand().path.size(), 4u);
  const auto first = units(path.demand());
  path.advance(trace, 1, blocks);
  EXPECT_EQ(first[3], units(path.demand())[3]);
}

}  // namespace
}  // namespace stemma::replay
