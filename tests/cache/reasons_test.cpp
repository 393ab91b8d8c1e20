// Why a prompt reuses no more: the reason that no server on a CPU can give, whose kernels store
// states at every depth. The others are provoked over HTTP (tests/e2e/test_cache_reasons.py), that
// of sliding windows in window_component_test.cpp.

#include <numeric>
#include <variant>

#include "simulated_engine.h"

namespace stemma {
namespace {

std::vector<Token> tokens_from(Token first, int count) {
  std::vector<Token> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(Reasons, BelowTheGridIsSaidWhereTheKernelsStoreNoState) {
  CacheConfig config;
  config.page_count = 100;
  config.row_count = 20;
  config.state_grid = 64;
  SimulatedEngine engine(config);
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("model");
  const auto known = tokens_from(0, 150);
  {
    SimulatedEngine::Sequence first{ns, std::get<Lease>(cache->acquire({ns, known})), 150};
    engine.restore(first);
    engine.compute(first, 150);
    first.lease.publish(150);
    std::move(first.lease).finish();
  }
  std::vector<Token> other(known.begin(), known.begin() + 100);
  const auto tail = tokens_from(1000, 20);
  other.insert(other.end(), tail.begin(), tail.end());
  const Lookup found = cache->lookup(ns, other);
  EXPECT_EQ(found.matched, 100);
  EXPECT_EQ(found.usable, 64);
  EXPECT_EQ(found.limit, ReuseLimit::below_grid);
  for (const PlannedMark& mark : cache->explain({ns, other}).planned) EXPECT_EQ(mark.depth % 64, 0);
}

TEST(Reasons, AnExplanationOfTheFirstPromptOfANamespacePlansWhatAcquirePlans) {
  CacheConfig config;
  config.page_count = 100;
  config.row_count = 20;
  SimulatedEngine engine(config);
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("model");
  const auto prompt = tokens_from(0, 200);
  const Explanation explained = cache->explain({ns, prompt});
  SimulatedEngine::Sequence sequence{ns, std::get<Lease>(cache->acquire({ns, prompt})), 200};
  engine.restore(sequence);
  std::vector<Depth> planned;
  for (const PlannedMark& mark : explained.planned) planned.push_back(mark.depth);
  EXPECT_EQ(engine.compute(sequence, 200), planned);
  EXPECT_GT(planned.size(), 1u);
  sequence.lease.publish(200);
}

TEST(Reasons, OfAModelWithoutRecurrentLayersNothingIsPlanned) {
  CacheConfig config;
  config.page_count = 100;
  config.row_bytes = 0;
  SimulatedEngine engine(config);
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("model");
  const auto prompt = tokens_from(0, 200);
  {
    SimulatedEngine::Sequence sequence{ns, std::get<Lease>(cache->acquire({ns, prompt})), 200};
    engine.restore(sequence);
    engine.compute(sequence, 200);
    sequence.lease.publish(200);
  }
  const Explanation explained = cache->explain({ns, prompt});
  EXPECT_EQ(explained.lookup.usable, 199);
  EXPECT_EQ(explained.lookup.limit, ReuseLimit::whole_prompt);
  EXPECT_TRUE(explained.planned.empty());
  EXPECT_TRUE(explained.checkpoints.empty());
}

TEST(Reasons, AnExactRepeatWhoseStatesWereEvictedSaysSo) {
  CacheConfig config;
  config.page_count = 100;
  config.row_count = 2;
  config.eviction = "lru";
  SimulatedEngine engine(config);
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("model");
  for (const Token first : {0, 1000}) {
    const auto prompt = tokens_from(first, 100);
    SimulatedEngine::Sequence sequence{ns, std::get<Lease>(cache->acquire({ns, prompt})), 100};
    engine.restore(sequence);
    engine.compute(sequence, 100);
    sequence.lease.publish(100);
    std::move(sequence.lease).finish();
  }
  const Lookup found = cache->lookup(ns, tokens_from(0, 100));
  EXPECT_EQ(found.matched, 100);
  EXPECT_EQ(found.usable, 0);
  EXPECT_EQ(found.limit, ReuseLimit::state_evicted);
}

}  // namespace
}  // namespace stemma
