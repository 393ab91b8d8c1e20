// SGLang's prefix cache for hybrid models, behaviour by behaviour: the tests are named after the
// rows of our notes on it (T: tree, K: where states are taken, E: end to end, M: MLX) or after its
// issues. Each says what SGLang does and what happens here: the same, or more, and then by how
// much.
//
// Rows without a test here:
//   T2             which layer is the how-many-eth: models/ and memory/ lay out buffers; no such
//                  map here
//   T12 T15 T21 T24 T25 K5   not in the notes
//   T20            skips a lock on decode: nothing is locked while decoding (T17)
//   T26 T27        sliding-window KV: window_component_test.cpp
//   K1 (metadata)  an NPU kernel's argument; the depth itself is in K1 below
//   K2             indices into a GPU kernel's scratch of chunk states; our kernels store at marks
//   H1 H3-H13      host tier: there is none yet; H2's second half is T11
//   H14            events: there are none yet
//   4.4            int8 codec: there is none yet
//   E4 E5          numeric: a hit gives the same bits (tests/engine/exact_test.cpp)
//   E6             host and storage tiers
//   M: eager copies in MLX's arrays: restores are the engine's

#include <algorithm>
#include <string>
#include <vector>

#include "scenario.h"

namespace stemma {
namespace {

// One token a page, states only where sequences end: the setting of SGLang's tree tests.
CacheConfig tree_setting(std::uint32_t pages = 300, std::uint32_t rows = 100) {
  CacheConfig config = hybrid(1, pages, rows);
  config.snapshot = no_snapshots();
  config.snapshot.end_snapshot = true;
  return config;
}

Tokens sequence_of(std::initializer_list<Token> tokens) { return tokens; }

// What a prompt that goes on after `tokens` would reuse.
Lookup after(const Bench& bench, Tokens tokens) {
  tokens.push_back(-7);
  return bench.cache->lookup(bench.ns, tokens);
}

Explanation explain(const Bench& bench, const Tokens& tokens) {
  return bench.cache->explain({bench.ns, tokens});
}

// Evicts so many checkpoints, least recently used first: other requests take all rows beside
// theirs.
void evict_checkpoints(Bench& bench, std::uint32_t count) {
  const std::uint64_t before = bench.cache->stats().evicted_checkpoints;
  std::vector<Lease> holders;
  for (Token i = 900; bench.cache->stats().evicted_checkpoints < before + count; ++i)
    holders.push_back(std::get<Lease>(bench.ask(sequence_of({i}))));
}

bool plans(const Explanation& explanation, MarkSource source, Depth depth) {
  return std::any_of(explanation.planned.begin(), explanation.planned.end(),
                     [&](const PlannedMark& m) { return m.source == source && m.depth == depth; });
}

const Tokens kOneToThree{1, 2, 3};
const Tokens kOneToSeven{1, 2, 3, 4, 5, 6, 7};
const Tokens kTens{10, 11, 12};
const Tokens kFork{1, 2, 3, 4, 5, 60, 70};

// ---- T: tree and states

TEST(SglangT1, ARowIsTakenForARequestAndComesBackWithIt) {
  Bench bench(tree_setting(300, 20));
  {
    const auto one = std::get<Lease>(bench.ask(kOneToThree));
    EXPECT_EQ(bench.cache->stats().rows.free, 19u);
  }
  EXPECT_EQ(bench.cache->stats().rows.free, 20u);
  // SGLang can free a request without its state, and then leaks or reuses it by hand: a lease is
  // one.
}

TEST(SglangT3, PrefixesAreFoundAndEdgesSplitWhereTheyPart) {
  Bench bench(tree_setting());
  const auto matched = [&](const Tokens& tokens) {
    const Depth depth = bench.cache->lookup(bench.ns, tokens).matched;
    bench.visit(tokens);
    return depth;
  };
  EXPECT_EQ(matched(kOneToThree), 0);
  EXPECT_EQ(matched(kOneToSeven), 3);
  EXPECT_EQ(matched(kTens), 0);
  EXPECT_EQ(matched(kFork), 5);
  EXPECT_EQ(explain(bench, kOneToSeven).forks, std::vector<Depth>{5});
  EXPECT_EQ(explain(bench, kOneToSeven).checkpoints, (std::vector<Depth>{3, 7}));
  // SGLang has 5: a state needs a node that ends at its depth.
  EXPECT_EQ(bench.cache->stats().nodes, 4u);
}

TEST(SglangT4, EvictingOneTokenOfKvTakesOneToken) {
  Bench bench(tree_setting(13));
  bench.visit(kTens);
  bench.visit(kOneToThree);
  bench.visit(kOneToSeven);
  ASSERT_EQ(bench.cache->stats().pages.free, 3u);
  const auto four = bench.start(sequence_of({20, 21, 22, 23}));
  EXPECT_EQ(after(bench, kTens).matched, 2) << "SGLang drops the leaf with all three";
  EXPECT_EQ(after(bench, kOneToSeven).usable, 7);
}

TEST(SglangT5, AnEvictedStateTakesTheHitButNotTheKv) {
  Bench bench(tree_setting());
  bench.visit(kOneToThree);
  auto longer = bench.start(sequence_of({1, 2, 3, 4, 5}));
  bench.step(longer, 5);  // no state of its own yet
  ASSERT_EQ(after(bench, sequence_of({1, 2, 3, 4, 5})).usable, 3);
  evict_checkpoints(bench, 1);
  const Lookup found = after(bench, sequence_of({1, 2, 3, 4, 5}));
  EXPECT_EQ(found.usable, 0);
  EXPECT_EQ(found.matched, 5) << "and the KV can be used to rebuild the state";
  EXPECT_EQ(found.limit, ReuseLimit::state_evicted) << "and the reason is told";
}

TEST(SglangT6, BothBranchesAreFoundToTheirEnds) {
  Bench bench(tree_setting());
  for (const Tokens& tokens : {kOneToThree, kOneToSeven, kFork}) bench.visit(tokens);
  EXPECT_EQ(after(bench, kFork).usable, 7);
  EXPECT_EQ(after(bench, kOneToSeven).usable, 7);
}

TEST(SglangT7, AHitRestoresTheStateOfItsDepth) {
  Bench bench(tree_setting());
  bench.visit(kOneToThree);
  bench.visit(kFork);
  bench.visit(kOneToSeven);
  evict_checkpoints(bench, 2);  // those of 1, 2, 3 and of the fork
  EXPECT_EQ(after(bench, kFork).usable, 0);
  auto next = bench.start(joined(kOneToSeven, {8}));  // checks what it was restored from
  EXPECT_EQ(next.lease.hit(), 7);
}

TEST(SglangT8, WhatTheTreeHasIsNeverPaidTwice) {
  Bench bench(tree_setting());
  const auto used = [&] { return bench.cache->stats().pages.evictable; };
  Tokens tokens{1, 2, 3};
  bench.visit(tokens);
  EXPECT_EQ(used(), 3u);
  for (const Token last : {7, 8, 9}) {
    while (tokens.back() < last) tokens.push_back(tokens.back() + 1);
    bench.visit(tokens);
    EXPECT_EQ(used(), tokens.size()) << "SGLang: up to all tokens again, to be freed by the caller";
  }
}

TEST(SglangT9, AStateThatIsThereStays) {
  Bench bench(tree_setting());
  bench.visit(sequence_of({1, 2}));
  const auto row = [&] {
    return *std::get<Lease>(bench.ask(sequence_of({1, 2, 3}))).restore_plan().state_from;
  };
  const RowId first = row();
  bench.visit(sequence_of({1, 2}));
  EXPECT_EQ(row(), first);
  EXPECT_EQ(bench.cache->stats().rows.evictable, 1u);
  EXPECT_EQ(bench.cache->stats().checkpoints, 1u);
}

TEST(SglangT10, WithoutARowForItAStateIsSkippedAndTheKvStays) {
  CacheConfig config = tree_setting(300, 1);
  config.snapshot.end_snapshot = false;
  config.snapshot.repeat_snapshot = true;
  Bench bench(config);
  auto only = bench.start(kOneToSeven);
  EXPECT_EQ(bench.step(only, 7), std::vector<Depth>{}) << "SGLang: a failed assertion";
  EXPECT_EQ(bench.cache->stats().marks_skipped, 1u);
  EXPECT_EQ(after(bench, kOneToSeven).matched, 7);
}

TEST(SglangT11, ABranchBeyondTheLastStateIsStoredAtTheGrid) {
  for (const Depth grid : {3, 1}) {
    CacheConfig config = tree_setting();
    config.snapshot.branch_snapshot = true;
    config.state_grid = grid;
    Bench bench(config);
    bench.visit(sequence_of({1, 2}));
    auto longer = bench.start(sequence_of({1, 2, 3, 4}));
    bench.step(longer, 4);
    const Explanation told = explain(bench, sequence_of({1, 2, 3, 4, 50}));
    EXPECT_EQ(told.lookup.usable, 2);
    // 3 is where a kernel with chunks of 3 can store; without a grid it is the branch itself.
    EXPECT_TRUE(plans(told, MarkSource::branch, grid == 3 ? 3 : 4));
  }
}

TEST(SglangT13, BelowTheGridThereIsNoBranch) {
  CacheConfig config = tree_setting();
  config.snapshot.branch_snapshot = true;
  config.state_grid = 8;
  Bench bench(config);
  auto four = bench.start(sequence_of({1, 2, 3, 4}));
  bench.step(four, 4);
  const Explanation told = explain(bench, sequence_of({1, 2, 3, 4, 50}));
  EXPECT_TRUE(told.planned.empty());
  EXPECT_EQ(told.lookup.limit, ReuseLimit::below_grid);
}

TEST(SglangT14, WhereTheHitReachesTheBranchNothingIsStoredAgain) {
  CacheConfig config = tree_setting();
  config.snapshot.branch_snapshot = true;
  config.state_grid = 2;
  Bench bench(config);
  bench.visit(sequence_of({1, 2}));
  bench.visit(sequence_of({1, 2, 3, 4}));
  const Explanation told = explain(bench, sequence_of({1, 2, 3, 4, 50}));
  EXPECT_EQ(told.lookup.usable, 4);
  EXPECT_TRUE(told.planned.empty());
}

TEST(SglangT16, ASplitLeavesEachStateAtItsDepth) {
  Bench bench(tree_setting());
  bench.visit(sequence_of({1, 2}));
  after(bench, sequence_of({1}));
  EXPECT_EQ(bench.cache->stats().nodes, 1u) << "SGLang's lookups split: here only a new path does";
  bench.visit(sequence_of({1, 5}));
  EXPECT_EQ(bench.cache->stats().nodes, 3u);
  EXPECT_EQ(explain(bench, sequence_of({1, 2, 9})).checkpoints, std::vector<Depth>{2});
  EXPECT_EQ(after(bench, sequence_of({1})).usable, 0);
}

TEST(SglangT17, AStateIsProtectedWhileSomebodyCopiesIt) {
  Bench bench(tree_setting());
  bench.visit(sequence_of({1, 2}));
  const auto evictable = [&] { return bench.cache->stats().rows.evictable; };
  const auto pinned = [&] { return bench.cache->stats().rows.pinned; };
  EXPECT_EQ(evictable(), 1u);
  auto one = std::get<Lease>(bench.ask(sequence_of({1, 2, 3})));
  EXPECT_EQ(evictable(), 0u);
  EXPECT_EQ(pinned(), 1u + 1u) << "beside the row of the request itself";
  auto two = std::get<Lease>(bench.ask(sequence_of({1, 2, 4})));
  EXPECT_EQ(evictable(), 0u);
  EXPECT_EQ(pinned(), 1u + 2u);
  one.restored();
  EXPECT_EQ(evictable(), 0u);
  two.restored();
  EXPECT_EQ(evictable(), 1u) << "SGLang locks it until the requests end";
}

TEST(SglangT18, ARequestWithoutAHitPinsNothing) {
  Bench bench(tree_setting());
  bench.visit(sequence_of({1, 2}));
  const auto other = std::get<Lease>(bench.ask(kTens));
  EXPECT_EQ(bench.cache->stats().pages.evictable, 2u);
  bench.cache->flush();
  bench.verify();
  EXPECT_EQ(bench.cache->stats().nodes, 0u);
}

TEST(SglangT19, AStateThatCameLaterIsProtectedByTheOneWhoUsesIt) {
  CacheConfig config = tree_setting();
  config.wait_threshold = 1000;
  Bench bench(config);
  auto first = bench.start(kOneToThree);
  bench.step(first, 3);  // KV without a state
  {
    auto second = bench.start(kOneToThree);
    bench.step(second, 3);
    bench.finish(std::move(second));  // the state
  }
  auto third = std::get<Lease>(bench.ask(joined(kOneToThree, {4})));
  const RowId source = *third.restore_plan().state_from;
  { const auto gone = std::move(first.lease); }
  bench.cache->flush();
  bench.verify();
  EXPECT_EQ(*third.restore_plan().state_from, source);
  EXPECT_EQ(bench.cache->stats().rows.pinned, 2u);
}

TEST(SglangT22, StatesGoOneByOneAndLeaveTheKv) {
  Bench bench(tree_setting());
  bench.visit(sequence_of({1}));
  bench.visit(sequence_of({1, 2}));
  evict_checkpoints(bench, 1);
  EXPECT_EQ(after(bench, sequence_of({1})).usable, 0) << "the inner one first";
  EXPECT_EQ(after(bench, sequence_of({1, 2})).usable, 2);
  evict_checkpoints(bench, 1);
  EXPECT_EQ(after(bench, sequence_of({1, 2})).usable, 0);
  EXPECT_EQ(after(bench, sequence_of({1, 2})).matched, 2) << "SGLang's leaf goes with its KV";
}

TEST(SglangT23, AStateInUseIsPassedOver) {
  Bench bench(tree_setting());
  bench.visit(sequence_of({1}));
  bench.visit(sequence_of({1, 2}));
  const auto user = std::get<Lease>(bench.ask(sequence_of({1, 9})));
  ASSERT_EQ(user.hit(), 1);
  evict_checkpoints(bench, 1);
  EXPECT_EQ(after(bench, sequence_of({1})).usable, 1);
  EXPECT_EQ(after(bench, sequence_of({1, 2})).usable, 1) << "the leaf's state went";
}

TEST(SglangT28, KeysThatReadTheSameTogetherAreTwoNamespaces) {
  Bench bench(tree_setting());
  // The engine joins fingerprint and salt with a zero byte, which neither contains.
  const std::string zero(1, '\0');
  const NamespaceId one = bench.cache->namespace_for("bc" + zero + "a");
  const NamespaceId two = bench.cache->namespace_for("c" + zero + "ab");
  ASSERT_NE(one, two);
  for (const NamespaceId ns : {one, two}) {
    bench.ns = ns;
    EXPECT_EQ(after(bench, kOneToThree).matched, 0);
    bench.visit(kOneToThree);
    EXPECT_EQ(after(bench, kOneToThree).usable, 3);
  }
  bench.ns = bench.cache->namespace_for("unsalted");
  EXPECT_EQ(after(bench, kOneToThree).matched, 0);
  EXPECT_EQ(bench.cache->stats().nodes, 2u);
}

TEST(SglangT29, AnEmptyTreeGivesNothing) {
  Bench bench(tree_setting(4, 1));
  bench.cache->flush();
  const auto all = std::get<Lease>(bench.ask(sequence_of({1, 2, 3, 4})));
  EXPECT_EQ(waits(bench.ask(sequence_of({5}))), WaitReason::no_pages);
  EXPECT_EQ(bench.cache->stats().evicted_pages + bench.cache->stats().evicted_checkpoints, 0u);
}

TEST(SglangT30, AFinishedSequenceIsFoundToItsEnd) {
  for (const int page_size : {1, 16, 64}) {
    CacheConfig config = hybrid(page_size, 500);
    config.snapshot = no_snapshots();
    config.snapshot.end_snapshot = true;
    Bench bench(config);
    auto sequence = bench.start(text(1, 3 * 16));
    bench.step(sequence, 48);
    for (Depth depth = 49; depth <= 61; ++depth) {
      sequence.lease.append(depth);
      ASSERT_TRUE(sequence.lease.reserve(depth));
      bench.step(sequence, depth);
    }
    const Tokens all(sequence.lease.tokens().begin(), sequence.lease.tokens().end());
    bench.finish(std::move(sequence));
    // SGLang keeps whole pages up to the last tracked length: 48 of 61 with pages of 16, 0 of 64.
    EXPECT_EQ(after(bench, all).usable, 61);
  }
}

TEST(SglangT31, WhatIsLockedStaysAndTheRestGoes) {
  Bench bench(tree_setting(20));
  bench.visit(kOneToSeven);
  bench.visit(kTens);
  {
    auto user = bench.start(kOneToSeven);
    bench.cache->flush();
    EXPECT_EQ(after(bench, kTens).matched, 0);
    EXPECT_EQ(after(bench, kOneToSeven).matched, 7);
  }
  bench.cache->flush();
  EXPECT_EQ(after(bench, kOneToSeven).matched, 0);
}

// ---- K: where states are taken

TEST(SglangK1, TheLastGridPointOfAPrefillIsStored) {
  CacheConfig config = hybrid(64, 100);
  config.snapshot.idle_interval = 0;
  config.state_grid = 128;
  Bench bench(config);
  auto sequence = bench.start(text(1, 3008));
  const std::vector<Depth> marks = bench.step(sequence, 3008);
  EXPECT_EQ(marks.back(), 2944);
  // SGLang takes one a forward pass: here the ladder and the period are in the same one.
  EXPECT_EQ(marks, (std::vector<Depth>{512, 1024, 1536, 2048, 2560, 2944}));
}

TEST(SglangK3, APrefillShorterThanTheGridStoresNothing) {
  for (const Depth grid : {64, 1}) {
    CacheConfig config = hybrid();
    config.state_grid = grid;
    Bench bench(config);
    auto sequence = bench.start(text(1, 63));
    EXPECT_EQ(bench.step(sequence, 63), grid == 64 ? std::vector<Depth>{} : std::vector<Depth>{62});
  }
}

TEST(SglangK4, AnIntervalIsStoredByTheStepThatReachesIt) {
  CacheConfig config = hybrid();
  config.snapshot = no_snapshots();
  config.snapshot.periodic_interval = 512;
  for (const Depth step : {256, 128}) {
    Bench bench(config);
    auto sequence = bench.start(text(1, 1000));
    EXPECT_EQ(bench.step(sequence, 256), std::vector<Depth>{});
    EXPECT_EQ(bench.step(sequence, 256 + step),
              step == 256 ? std::vector<Depth>{512} : std::vector<Depth>{});
  }
}

TEST(SglangK6, WithoutARowAtTheBoundaryTheEndIsStoredAllTheSame) {
  for (const auto strategy :
       {SchedulerStrategy::extra_buffer, SchedulerStrategy::extra_buffer_lazy}) {
    CacheConfig config = hybrid(16, 100, 2);
    config.snapshot = no_snapshots();
    config.snapshot.generation_interval = 2;
    config.snapshot.end_snapshot = true;
    config.strategy = strategy;
    Bench bench(config);
    {
      const auto other = std::get<Lease>(bench.ask(text(2, 10)));
      auto sequence = bench.start(text(1, 15));
      bench.step(sequence, 15);
      sequence.lease.append(7);
      ASSERT_TRUE(sequence.lease.reserve(16));
      EXPECT_EQ(bench.step(sequence, 16), std::vector<Depth>{});
      bench.finish(std::move(sequence));  // SGLang: nothing is inserted
      EXPECT_EQ(after(bench, joined(text(1, 15), {7})).usable, 16);
    }
    bench.cache->flush();
    EXPECT_EQ(bench.cache->stats().rows.free, 2u) << "nothing leaks";
  }
}

// ---- E: end to end

// Three prompts that share 257 tokens; kernels that store at multiples of 64, and ours.
TEST(SglangE1, TheThirdVisitorOfABranchReusesIt) {
  for (const int page_size : {1, 64}) {
    const auto reused = [&](Depth grid, Depth idle_interval) {
      CacheConfig config = hybrid(page_size, 3000);
      config.state_grid = grid;
      config.snapshot.idle_interval = idle_interval;
      Bench bench(config);
      std::vector<Depth> hits;
      for (Token suffix = 2; suffix < 5; ++suffix)
        hits.push_back(bench.visit(joined(text(1, 257), text(suffix, 4 * 64))));
      return hits;
    };
    EXPECT_EQ(reused(64, 0), (std::vector<Depth>{0, 0, 256})) << "what SGLang has";
    EXPECT_EQ(reused(1, 0), (std::vector<Depth>{0, 0, 257})) << "to the token";
    EXPECT_EQ(reused(1, 64), (std::vector<Depth>{0, 256, 257}))
        << "by default, and with memory to spare: a visit earlier";
  }
}

TEST(SglangE2, AHitIsTheWholePrefixAndNotItsLastChunk) {
  for (const Depth shared : {64, 100, 200, 1000}) {
    Bench bench(hybrid(16, 500));
    bench.visit(text(1, shared));
    EXPECT_EQ(bench.visit(joined(text(1, shared), text(2, 30))), shared)
        << "SGLang: between floor(P / 64) * 64 - 64 and floor(P / 64) * 64";
  }
}

TEST(SglangE3, ADecodeHitIsAllThatWasComputed) {
  Bench bench(hybrid());
  auto sequence = bench.start(text(1, 100));
  bench.step(sequence, 100);
  for (Depth depth = 101; depth <= 400; ++depth) {
    sequence.lease.append(depth);
    if (depth == 400) break;  // sampled, not computed
    ASSERT_TRUE(sequence.lease.reserve(depth));
    bench.engine.compute(sequence, depth);
    sequence.lease.advance(depth);
  }
  const Tokens all(sequence.lease.tokens().begin(), sequence.lease.tokens().end());
  bench.finish(std::move(sequence));
  // SGLang: floor(399 / 256) * 256 = 256; 143 tokens of KV are thrown away.
  EXPECT_EQ(after(bench, all).usable, 399);
  EXPECT_TRUE(std::ranges::count(explain(bench, all).checkpoints, 256) == 1) << "as well";
}

TEST(SglangE7, LazyRowsServeAShortInterval) {
  for (const int page_size : {1, 2}) {
    CacheConfig config = hybrid(page_size, 1000);
    config.strategy = SchedulerStrategy::extra_buffer_lazy;
    config.snapshot = no_snapshots();
    config.snapshot.generation_interval = 2;
    config.snapshot.branch_snapshot = true;
    Bench bench(config);
    auto sequence = bench.start(text(1, 20));
    bench.step(sequence, 20);
    for (Depth depth = 21; depth <= 30; ++depth) {
      sequence.lease.append(depth);
      ASSERT_TRUE(sequence.lease.reserve(depth));
      bench.step(sequence, depth);
    }
    EXPECT_EQ(explain(bench, joined(text(1, 20), {21, 22, 23, 24, 25})).checkpoints,
              (std::vector<Depth>{22, 24}));
  }
}

// ---- M: MLX's auxiliary states: chunk 4, 4 slots

TEST(SglangM, AuxiliaryStates) {
  CacheConfig config = tree_setting(300, 4);
  config.snapshot.branch_snapshot = true;
  config.state_grid = 4;
  {
    Bench bench(config);
    bench.visit(text(1, 8));
    EXPECT_EQ(after(bench, text(1, 8)).usable, 8);
    EXPECT_TRUE(explain(bench, joined(text(1, 8), {0})).planned.empty()) << "no branching";
  }
  Bench bench(config);
  bench.visit(text(1, 4));
  bench.visit(text(1, 9));
  EXPECT_EQ(bench.cache->stats().rows.free, 2u);
  evict_checkpoints(bench, 1);
  EXPECT_EQ(bench.cache->stats().rows.free, 3u);
  const Explanation told = explain(bench, joined(text(1, 4), {0, 0}));
  EXPECT_EQ(told.lookup.usable, 0);
  EXPECT_TRUE(plans(told, MarkSource::branch, 4));
}

TEST(SglangM, WithTwoSlotsTheMatchedStateIsKeptAndTheOtherGoes) {
  Bench bench(tree_setting(300, 2));
  bench.visit(text(1, 4));
  bench.visit(text(2, 4));
  auto next = bench.start(text(1, 5));  // needs a row: that of the other
  EXPECT_EQ(next.lease.hit(), 4);
  EXPECT_EQ(after(bench, text(2, 4)).usable, 0);
}

// ---- Combinations that SGLang refuses (section 3.1), and which all work here

struct Combination {
  const char* refused;
  SchedulerStrategy strategy;
  int page_size;
  Depth grid;
  Depth chunk;  // tokens a step
  Depth generation_interval;
  bool publish_late;  // as with overlapped scheduling: the next step runs before the last is known
};

void PrintTo(const Combination& c, std::ostream* out) { *out << c.refused; }

class SglangRefuses : public testing::TestWithParam<Combination> {};

TEST_P(SglangRefuses, AndItWorks) {
  const Combination& c = GetParam();
  for (const bool states : {true, false}) {
    CacheConfig config = hybrid(c.page_size, 4000, states ? 400 : 0);
    config.strategy = c.strategy;
    config.state_grid = c.grid;
    config.snapshot.generation_interval = c.generation_interval;
    Bench bench(config);
    const auto turn = [&](const Tokens& prompt) {
      auto sequence = bench.start(prompt);
      const Depth hit = sequence.lease.hit();
      const auto go_on = [&](Depth to) {
        ASSERT_TRUE(sequence.lease.reserve(to));
        bench.engine.compute(sequence, to);
        if (c.publish_late) {
          sequence.lease.advance(to);
        } else {
          sequence.lease.publish(to);
        }
      };
      const auto length = static_cast<Depth>(prompt.size());
      for (Depth at = hit; at < length;) go_on(at = std::min(at + c.chunk, length));
      for (Depth at = length + 1; at <= length + 20; ++at) {
        sequence.lease.append(at);
        go_on(at);
      }
      bench.finish(std::move(sequence));
      return hit;
    };
    const bool marks = states && c.strategy != SchedulerStrategy::no_buffer;
    const Tokens first = text(1, 300);
    EXPECT_EQ(turn(first), 0);
    Tokens next = first;
    for (Depth token = 301; token <= 320; ++token) next.push_back(token);
    EXPECT_EQ(turn(joined(next, text(2, 50))), 320) << "the next turn goes on at the output's end";
    // Two more that leave the first prompt at 150: the second of them finds a state there.
    turn(joined(text(1, 150), text(3, 40)));
    const Depth branch = turn(joined(text(1, 150), text(4, 40)));
    EXPECT_EQ(branch, !states ? 150 : !marks ? 0 : 150 / c.grid * c.grid);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, SglangRefuses,
    testing::Values(Combination{"no_buffer with pages above 1", SchedulerStrategy::no_buffer, 16, 1,
                                512, 256, false},
                    Combination{"no_buffer with overlapped scheduling",
                                SchedulerStrategy::no_buffer, 1, 1, 512, 256, true},
                    Combination{"both", SchedulerStrategy::no_buffer, 64, 1, 37, 256, true},
                    Combination{"extra_buffer on a CPU", SchedulerStrategy::extra_buffer, 16, 1,
                                512, 256, true},
                    Combination{"extra_buffer_lazy on a CPU", SchedulerStrategy::extra_buffer_lazy,
                                16, 1, 512, 256, true},
                    Combination{"extra_buffer with one token a page and a step",
                                SchedulerStrategy::extra_buffer, 1, 1, 1, 256, false},
                    Combination{"a track interval that is no multiple of the page",
                                SchedulerStrategy::extra_buffer, 16, 1, 512, 10, false},
                    Combination{"a track interval of every token",
                                SchedulerStrategy::extra_buffer_lazy, 16, 1, 512, 1, false},
                    Combination{"a grid and a page of which none divides the other",
                                SchedulerStrategy::extra_buffer, 16, 7, 512, 256, false},
                    Combination{"chunks shorter than the grid",
                                SchedulerStrategy::extra_buffer_lazy, 16, 64, 5, 256, false},
                    Combination{"pages above the grid", SchedulerStrategy::automatic, 256, 64, 37,
                                256, true}));

TEST(SglangRefuses, AShareOfAPathThatIsNone) {
  CacheConfig config = hybrid();
  config.snapshot.path_share = 0;
  EXPECT_FALSE(Cache::create(config)) << "here as there";
}

// ---- Known bugs (section 5)

TEST(SglangIssue21158, AnExactRepeatComputesOneToken) {
  for (const auto strategy : {SchedulerStrategy::automatic, SchedulerStrategy::extra_buffer,
                              SchedulerStrategy::extra_buffer_lazy}) {
    CacheConfig config = hybrid();
    config.strategy = strategy;
    Bench bench(config);
    bench.visit(text(1, 1000));
    EXPECT_EQ(bench.visit(text(1, 1000)), 999) << "SGLang: 0 with no_buffer, 960 with extra_buffer";
  }
  CacheConfig config = hybrid();
  config.strategy = SchedulerStrategy::no_buffer;
  Bench bench(config);
  bench.visit(text(1, 1000));
  EXPECT_EQ(bench.visit(text(1, 1000)), 0) << "no_buffer stores the end only, and says so:";
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 1000)).limit, ReuseLimit::state_not_stored);
}

// Three interleaved chains of 32,768 tokens in steps of 2,048, 48 states: SGLang stores one a step,
// drops the shallow ones first, and a fork at 8,192 reuses nothing although its KV is there.
class SglangIssue36935 : public testing::TestWithParam<const char*> {
 protected:
  static CacheConfig config() {
    CacheConfig config = hybrid(16, 15000, 48);
    config.eviction = GetParam();
    return config;
  }
  static Tokens chain(int number) {
    Tokens tokens(32768);
    std::iota(tokens.begin(), tokens.end(), number * 100000);
    return tokens;
  }
  static void run_three(Bench& bench) {
    std::vector<SimulatedEngine::Sequence> chains;
    for (int i = 1; i <= 3; ++i) chains.push_back(bench.start(chain(i)));
    for (Depth to = 2048; to <= 32768; to += 2048) {
      for (auto& sequence : chains) {
        bench.engine.compute(sequence, to);
        sequence.lease.publish(to);
      }
    }
    for (auto& sequence : chains) bench.finish(std::move(sequence));
  }
  static Tokens fork(Depth depth, Token suffix, int length = 4096) {
    Tokens tokens = chain(1);
    tokens.resize(depth);
    return joined(std::move(tokens), text(suffix, length));
  }
};

TEST_P(SglangIssue36935, AForkInTheMiddleOfAChainReusesIt) {
  Bench bench(config());
  run_three(bench);
  EXPECT_GE(bench.visit(fork(8192, 5000)), 8192) << "SGLang: 0";
  EXPECT_GE(bench.visit(fork(8192, 6000)), 8192);
  EXPECT_EQ(bench.visit(fork(8192, 5000)), 8192 + 4095) << "the fork's own prompt, once more";
  EXPECT_GT(bench.visit(joined(fork(8192, 5000), text(7000, 500))), 8192 + 4000);
}

TEST_P(SglangIssue36935, AForkAnywhereReusesHalfAtOnceAndAllFromTheThirdOn) {
  for (const Depth depth : {1500, 5000, 8191, 12345, 20000, 31000}) {
    Bench bench(config());
    run_three(bench);
    EXPECT_GE(bench.visit(fork(depth, 5000)), depth / 2) << depth;
    bench.visit(fork(depth, 6000));
    EXPECT_EQ(bench.visit(fork(depth, 7000)), depth);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, SglangIssue36935, testing::Values("value", "lru"));

TEST(SglangPr31230, OneLongRequestDoesNotFlushThePool) {
  for (const char* policy : {"value", "lru"}) {
    CacheConfig config = hybrid(64, 12000, 128);
    config.eviction = policy;
    Bench bench(config);
    constexpr int kOthers = 20;
    for (Token i = 1; i <= kOthers; ++i) bench.visit(text(i, 40));
    Tokens tokens(549000);
    std::iota(tokens.begin(), tokens.end(), 1000000);
    auto longest = bench.start(tokens);
    for (Depth to = 0; to < 549000;) {
      to = std::min(to + 4096, 549000);
      bench.engine.compute(longest, to);
      longest.lease.publish(to);
    }
    bench.finish(std::move(longest));
    int hits = 0;
    for (Token i = 1; i <= kOthers; ++i) hits += after(bench, text(i, 40)).usable == 40;
    EXPECT_EQ(hits, kOthers) << policy << "; SGLang: its 134 states take all 128 slots";
  }
}

TEST(SglangIssue34676, StoringNeverFails) {
  // As many running sequences as rows: no mark finds one, and everything ends well.
  for (const auto strategy : {SchedulerStrategy::extra_buffer_lazy, SchedulerStrategy::no_buffer}) {
    CacheConfig config = hybrid(16, 400, 4);
    config.strategy = strategy;
    Bench bench(config);
    std::vector<SimulatedEngine::Sequence> all;
    for (Token i = 1; i <= 4; ++i) all.push_back(bench.start(text(i, 600)));
    EXPECT_EQ(waits(bench.ask(text(9, 10))), WaitReason::no_rows) << "it queues; SGLang dies";
    for (auto& sequence : all) EXPECT_EQ(bench.step(sequence, 600), std::vector<Depth>{});
    if (strategy == SchedulerStrategy::extra_buffer_lazy) {
      EXPECT_GT(bench.cache->stats().marks_skipped, 0u);
    }
    for (auto& sequence : all) bench.finish(std::move(sequence));
    EXPECT_EQ(bench.cache->stats().checkpoints, 4u);
  }
}

TEST(SglangIssue21379, AStateGoesFromALeafWhoseKvIsInUse) {
  Bench bench(tree_setting());
  bench.visit(kOneToThree);
  auto user = bench.start(sequence_of({1, 2, 3, 4}));
  evict_checkpoints(bench, 1);
  bench.verify();
  EXPECT_EQ(after(bench, kOneToThree).matched, 3);
  EXPECT_EQ(after(bench, kOneToThree).usable, 0);
}

TEST(SglangPr37198, PrefixesThatVaryALittleAreReused) {
  // 2,000 common tokens, then each prompt leaves a little later than the one before.
  Bench bench(hybrid(16, 2000, 400));
  bench.visit(text(1, 3000));
  for (Token i = 0; i < 6; ++i) {
    const Depth shared = 2000 + 7 * i;
    EXPECT_GE(bench.visit(joined(text(1, shared), text(2 + i, 50))), 1984)
        << "SGLang: 0, its one state is at a branch that nobody takes again";
  }
}

TEST(SglangPr22493, APreemptedSequenceKeepsItsStateWithItsKv) {
  Bench bench(hybrid());
  auto sequence = bench.start(text(1, 60));
  bench.step(sequence, 60);
  for (Depth depth = 61; depth <= 75; ++depth) {
    sequence.lease.append(depth);
    ASSERT_TRUE(sequence.lease.reserve(depth));
    bench.step(sequence, depth);
  }
  Tokens so_far(sequence.lease.tokens().begin(), sequence.lease.tokens().end());
  bench.finish(std::move(sequence));
  so_far.push_back(76);
  EXPECT_EQ(bench.visit(so_far), 75) << "SGLang computes it all again";
}

TEST(SglangDynamo10999, KvWithoutAStateIsCounted) {
  CacheConfig config = hybrid();
  config.strategy = SchedulerStrategy::no_buffer;
  Bench bench(config);
  bench.visit(text(1, 100));
  bench.visit(joined(text(1, 50), text(2, 10)));
  const auto& limits = bench.cache->stats().limits;
  EXPECT_EQ(limits[static_cast<int>(ReuseLimit::state_not_stored)], 1u);
}

}  // namespace
}  // namespace stemma
