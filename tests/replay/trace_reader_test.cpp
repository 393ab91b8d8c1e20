#include <gmock/gmock.h>

#include "small_traces.h"

namespace stemma::replay {
namespace {

using test::path;
using test::read;
using ::testing::HasSubstr;

std::size_t common(const std::vector<BlockId>& a, const std::vector<BlockId>& b) {
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  return i;
}

TEST(Mooncake, RequestsThatGoOnFromAnotherAreItsSession) {
  const Trace trace = read(test::kMooncake).value();
  EXPECT_EQ(trace.format, "mooncake");
  EXPECT_TRUE(trace.timed);
  ASSERT_EQ(trace.sessions.size(), 2u);
  EXPECT_EQ(trace.chains[0].request_count, 2u);  // the third goes on from the first
  EXPECT_EQ(trace.requests[1].offset, 60.0);
  EXPECT_EQ(trace.sessions[1].start, 0.5);
}

TEST(Mooncake, AnAnswerIsWhatTheNextPromptHasInItsPlace) {
  const Trace trace = read(test::kMooncake).value();
  const auto first = path(trace, 0, 0);
  const auto next = path(trace, 0, 1);
  EXPECT_EQ(first.size(), 3u);  // 1,200 tokens
  EXPECT_EQ(common(first, next),
            3u);  // its third block is filled by the answer and the next question
  EXPECT_EQ(common(first, path(trace, 1, 0)), 1u);
}

TEST(AgentCoding, SessionsShareTheirHeadAndNothingElse) {
  const Trace trace = read(test::kAgentCoding).value();
  ASSERT_EQ(trace.sessions.size(), 2u);
  EXPECT_FALSE(trace.timed);
  EXPECT_EQ(common(path(trace, 0, 0), path(trace, 2, 0)), 2u);  // 140 tokens are two whole blocks
}

TEST(AgentCoding, KeepAndAddMakeThePromptAndTheNextPromptTheAnswer) {
  const Trace trace = read(test::kAgentCoding).value();
  EXPECT_EQ(path(trace, 0, 0).size(), 5u);  // 270 tokens
  EXPECT_EQ(common(path(trace, 0, 0), path(trace, 0, 1)), 5u);
  EXPECT_EQ(path(trace, 0, 1).size(), 7u);  // 410 tokens
}

TEST(AgentCoding, ASubAgentStartsFromNothingAfterTheRequestBeforeIt) {
  const Trace trace = read(test::kAgentCoding).value();
  ASSERT_EQ(trace.sessions[0].chain_count, 2u);
  const Chain& agent = trace.chains[1];
  ASSERT_TRUE(agent.launch);
  EXPECT_EQ(agent.launch->after, trace.chains[0].first_request);
  EXPECT_EQ(agent.launch->delay, 1.0);  // it starts at 3 s, the request before ends at 2 s
  EXPECT_EQ(common(path(trace, 0, 0), path(trace, 1, 0)), 0u);
}

TEST(Bailian, TurnsFollowTheirParents) {
  const Trace trace = read(test::kBailian).value();
  EXPECT_EQ(trace.format, "bailian");
  EXPECT_EQ(trace.block_tokens, 16);
  ASSERT_EQ(trace.sessions.size(), 1u);
  EXPECT_EQ(trace.requests[1].offset, 7.5);
  EXPECT_EQ(common(path(trace, 0, 0), path(trace, 0, 1)), 4u);
}

TEST(Marconi, TokensAreKnownToTheLast) {
  const Trace trace = read(test::kMarconi).value();
  EXPECT_EQ(trace.block_tokens, 1);
  EXPECT_EQ(common(path(trace, 0, 0), path(trace, 0, 1)), 5u);
  EXPECT_EQ(path(trace, 0, 1).size(), 7u);
}

TEST(Azure, HasLengthsButNothingToShareAndSaysSo) {
  const Trace trace = read(test::kAzure).value();
  EXPECT_THAT(std::string(trace.note), HasSubstr("nothing can be reused"));
  ASSERT_EQ(trace.sessions.size(), 2u);
  EXPECT_NEAR(trace.sessions[1].start, 4.314579, 1e-4);
  EXPECT_EQ(common(path(trace, 0, 0), path(trace, 1, 0)), 0u);
}

TEST(TraceReader, NamesFileLineAndReason) {
  const std::string line =
      R"({"timestamp": 0, "input_length": 1100, "output_length": 1, "hash_ids": [7, 8]})";
  const auto trace = read(test::kMooncake + line);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code(), ErrorCode::trace_bad_line);
  EXPECT_THAT(trace.error().message(), HasSubstr("trace, line 4"));
}

TEST(TraceReader, RefusesWhatIsNoTrace) {
  EXPECT_EQ(read("hello\n").error().code(), ErrorCode::trace_unknown_format);
  EXPECT_EQ(read("\n\n").error().code(), ErrorCode::trace_empty);
  EXPECT_EQ(read("TIMESTAMP,ContextTokens,GeneratedTokens\n").error().code(),
            ErrorCode::trace_empty);
  EXPECT_EQ(read_trace_file("no/such/trace.jsonl").error().code(), ErrorCode::trace_not_readable);
}

TEST(Trace, EveryKthSessionIsADeterministicPart) {
  const Trace trace = read(test::kMooncake).value();
  EXPECT_EQ(every_kth_session(trace, 1).sessions.size(), 1u);
  EXPECT_EQ(every_kth_session(trace, 5).sessions.size(), 2u);
}

}  // namespace
}  // namespace stemma::replay
