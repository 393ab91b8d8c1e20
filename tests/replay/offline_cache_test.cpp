#include <gmock/gmock.h>

#include <random>

#include "replay/path_index.h"
#include "replay/sweep.h"
#include "small_traces.h"

namespace stemma::replay {
namespace {

const ModelCosts kModel{"small", 1, 1, {20'000, 10'000, 6'000}, 10, 1e6, 1e6, 8, "made up"};

SweepResult swept(const Trace& trace, std::vector<double> budgets, int concurrency = 2) {
  SweepConfig config;
  config.budgets = std::move(budgets);
  config.systems = {"lru", "offline", "value", "slru", "lfu", "marconi:0.5", "seglen"};
  config.load.profile = {"test", 10'000, 100};
  config.load.concurrency = concurrency;
  return run_sweep(trace, kModel, config, {}).value();
}

const ReplayResult& offline(const BudgetResult& budget) { return budget.systems[1].orders[0]; }
const ReplayResult& lru(const BudgetResult& budget) { return budget.systems[0].orders[0]; }

std::string request(double seconds, int in, const std::string& ids) {
  return R"({"timestamp": )" + std::to_string(seconds * 1000) + R"(, "input_length": )" +
         std::to_string(in) + R"(, "output_length": 1, "hash_ids": [)" + ids + "]}\n";
}

TEST(Offline, KeepsOneOfTwoThatTakeTurns) {
  std::string text;
  for (int i = 0; i < 10; ++i)
    text += request(i * 100, 2048, i % 2 == 0 ? "1, 2, 3, 4" : "5, 6, 7, 8");
  // One prompt is 21 KB, a checkpoint or a running state 20.
  const SweepResult result = swept(test::read(text).value(), {82'000}, 1);
  EXPECT_LT(lru(result.budgets[0]).hit_tokens, offline(result.budgets[0]).hit_tokens);
  const std::uint64_t four_hits = 4 * 3 * 512;
  EXPECT_GE(offline(result.budgets[0]).hit_tokens, four_hits);
}

TEST(Offline, TakesCheckpointsOnlyWhereSomebodyWillStop) {
  const std::string text = request(0, 2048, "1, 2, 3, 4") + request(100, 2048, "1, 2, 9, 10") +
                           request(200, 2048, "11, 12, 13, 14");
  const SweepResult result = swept(test::read(text).value(), {1e9});
  EXPECT_EQ(offline(result.budgets[0]).cache.stored_states, 1u);
  EXPECT_EQ(offline(result.budgets[0]).hit_tokens, 1024u);
}

TEST(Offline, WithRoomForAllItIsTheInfiniteCache) {
  for (const std::string& text : {test::kMooncake, test::kAgentCoding, test::kBailian}) {
    const SweepResult result = swept(test::read(text).value(), {1e12});
    EXPECT_EQ(offline(result.budgets[0]).hit_tokens, result.infinite.orders[0].hit_tokens);
  }
}

// Conversations that grow, branch off shared heads, come back and are forgotten.
std::string random_trace(unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  int next_id = 1;
  std::vector<std::vector<int>> chats;
  for (int i = 0; i < 150; ++i) {
    if (chats.empty() || random() % 4 == 0) {
      chats.push_back(chats.empty() || random() % 3 == 0 ? std::vector<int>{}
                                                         : chats[random() % chats.size()]);
      chats.back().resize(random() % (chats.back().size() + 1));
    }
    std::vector<int>& chat = random() % 3 == 0 ? chats[random() % chats.size()] : chats.back();
    for (unsigned n = 1 + random() % 5; n > 0; --n) chat.push_back(next_id++);
    std::string ids;
    for (const int id : chat) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
    text += request(i * 3, static_cast<int>(chat.size()) * 512, ids);
  }
  return text;
}

class OfflineRandom : public ::testing::TestWithParam<unsigned> {};

TEST_P(OfflineRandom, NoPolicyBeatsItAndItBeatsNotTheInfiniteCache) {
  const Trace trace = test::read(random_trace(GetParam())).value();
  const SweepResult result = swept(trace, {300'000, 600'000, 1'200'000, 4'000'000});
  for (const BudgetResult& budget : result.budgets) {
    EXPECT_EQ(offline(budget).requests, 150u);
    for (const SystemResult& system : budget.systems) {
      EXPECT_GE(offline(budget).hit_tokens, system.orders[0].hit_tokens)
          << system.system << " at " << budget.budget_bytes;
    }
    EXPECT_LE(offline(budget).hit_tokens, result.infinite.orders[0].hit_tokens)
        << budget.budget_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, OfflineRandom, ::testing::Range(1u, 21u));

TEST(PathIndex, GivesEqualPathsEqualNodesAndChildrenHigherNumbers) {
  const Trace trace = test::read(test::kMooncake).value();
  const UnitSize unit = unit_size(trace, 512).value();
  const PathIndex index = PathIndex::build(trace, unit).value();
  std::vector<NodeIndex> first, next, other;
  index.path(0, first);
  index.path(1, next);
  index.path(2, other);
  EXPECT_EQ(first[1], next[1]);
  EXPECT_EQ(first[0], other[0]);
  EXPECT_NE(first[1], other[1]);
  for (std::size_t i = 1; i < next.size(); ++i) {
    EXPECT_EQ(index.parent(next[i]), next[i - 1]);
    EXPECT_GT(next[i], next[i - 1]);
    EXPECT_EQ(index.depth(next[i]), static_cast<Depth>(i + 1));
  }
}

}  // namespace
}  // namespace stemma::replay
