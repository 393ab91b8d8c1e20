// What the cache promises, one promise a test.

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "scenario.h"

namespace stemma {
namespace {

// ---- What is reused

TEST(Reuse, AnExactRepeatReusesAllButTheLastToken) {
  for (const int page_size : {1, 3, 16, 256}) {
    Bench bench(hybrid(page_size, 300));
    EXPECT_EQ(bench.visit(text(1, 100)), 0);
    EXPECT_EQ(bench.visit(text(1, 100)), 99);
    EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 100)).limit, ReuseLimit::whole_prompt);
  }
}

TEST(Reuse, KSharedTokensAreReusedFromTheThirdVisitorOnWhateverKIs) {
  CacheConfig config = hybrid(16, 200);
  config.snapshot.idle_interval = 0;
  for (Depth k = 1; k < 40; ++k) {
    Bench bench(config);
    const Tokens shared = text(1, k);
    bench.visit(joined(shared, text(2, 30)));
    bench.visit(joined(shared, text(3, 30)));
    EXPECT_EQ(bench.visit(joined(shared, text(4, 30))), k);
    EXPECT_EQ(bench.visit(joined(shared, text(5, 3))), k);
  }
}

TEST(Reuse, TheSecondVisitorStoresAStateWhereItLeavesThePath) {
  CacheConfig config = hybrid();
  config.snapshot = no_snapshots();
  config.snapshot.branch_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 50));
  auto second = bench.start(joined(text(1, 37), text(2, 20)));
  EXPECT_EQ(second.lease.lookup().matched, 37);
  EXPECT_EQ(second.lease.lookup().limit, ReuseLimit::state_not_stored);
  EXPECT_EQ(second.lease.hit(), 0);
  EXPECT_EQ(bench.step(second, 57), std::vector<Depth>{37});
}

TEST(Reuse, TheNextTurnGoesOnWhereTheOutputEnded) {
  Bench bench(hybrid());
  auto turn = bench.start(text(1, 30));
  bench.step(turn, 30);
  const Tokens output = text(2, 10);
  for (const Token token : output) {
    turn.lease.append(token);
    ASSERT_TRUE(turn.lease.reserve(static_cast<Depth>(turn.lease.tokens().size())));
    bench.engine.compute(turn, static_cast<Depth>(turn.lease.tokens().size()));
    turn.lease.advance(static_cast<Depth>(turn.lease.tokens().size()));
  }
  const RowId state = *turn.lease.state_row();
  bench.finish(std::move(turn));

  auto next = bench.start(joined(joined(text(1, 30), output), text(3, 10)));
  EXPECT_EQ(next.lease.hit(), 40);
  EXPECT_EQ(next.lease.restore_plan().state_from, state)
      << "the state row itself became the checkpoint";
}

TEST(Reuse, MessageEndsAreResumable) {
  CacheConfig config = hybrid();
  config.snapshot = no_snapshots();
  config.snapshot.message_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 60), {10, 25, 41});
  EXPECT_EQ(bench.visit(joined(text(1, 30), text(2, 5))), 25);
  EXPECT_EQ(bench.visit(joined(text(1, 41), text(2, 5))), 41);
}

TEST(Reuse, WithoutRecurrentLayersEveryMatchedTokenIsReused) {
  for (const int page_size : {1, 3, 16}) {
    Bench bench(attention_only(page_size, 200));
    bench.visit(text(1, 50));
    EXPECT_EQ(bench.visit(joined(text(1, 23), text(2, 5))), 23);
    EXPECT_EQ(bench.visit(text(1, 50)), 49);
    EXPECT_FALSE(bench.start(text(1, 50)).lease.state_row());
  }
}

TEST(Reuse, WithoutAttentionLayersStatesAreReused) {
  Bench bench(hybrid(16, 0, 10));
  bench.visit(text(1, 50));
  EXPECT_EQ(bench.visit(text(1, 50)), 49);
  auto sequence = bench.start(joined(text(1, 23), text(2, 5)));
  EXPECT_TRUE(sequence.lease.pages().empty());
  EXPECT_FALSE(sequence.lease.restore_plan().page_copy);
  EXPECT_TRUE(sequence.lease.reserve(1000000));
}

TEST(Reuse, NamespacesDoNotShare) {
  Bench bench(hybrid());
  bench.visit(text(1, 50));
  const NamespaceId other = bench.cache->namespace_for("model, salt");
  EXPECT_NE(other, bench.ns);
  EXPECT_EQ(bench.cache->namespace_for("model"), bench.ns);
  const Lookup found = bench.cache->lookup(other, text(1, 50));
  EXPECT_EQ(found.matched, 0);
  EXPECT_EQ(found.limit, ReuseLimit::other_namespace);
}

TEST(Reuse, AStateIsNeverUsedAtAnotherDepth) {
  CacheConfig config = hybrid();
  config.snapshot = no_snapshots();
  config.snapshot.end_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 20));
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 20)).usable, 0)
      << "at depth 20 of 20: its last token must be computed";
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 21)).usable, 20);
}

// ---- What is copied and what is shared

TEST(Pages, WholePagesAreSharedAndThePartialOneIsCopied) {
  Bench bench(hybrid(16));
  auto one = bench.start(text(1, 50));
  bench.step(one, 50);
  const std::vector<PageId> theirs(one.lease.pages().begin(), one.lease.pages().end());
  const auto two = std::get<Lease>(bench.ask(joined(text(1, 37), text(2, 30))));
  EXPECT_EQ(two.kv_write_from(), 37);
  ASSERT_EQ(two.pages().size(), 5u);
  EXPECT_EQ(two.pages()[0], theirs[0]);
  EXPECT_EQ(two.pages()[1], theirs[1]);
  ASSERT_TRUE(two.restore_plan().page_copy);
  EXPECT_EQ(two.restore_plan().page_copy->from, theirs[2]);
  EXPECT_EQ(two.restore_plan().page_copy->to, two.pages()[2]);
  EXPECT_EQ(two.restore_plan().page_copy->slots, 5);
}

TEST(Pages, NothingIsCopiedAtAPageEnd) {
  Bench bench(attention_only(16));
  bench.visit(text(1, 50));
  const auto lease = std::get<Lease>(bench.ask(joined(text(1, 32), text(2, 30))));
  EXPECT_FALSE(lease.restore_plan().page_copy);
  EXPECT_EQ(lease.kv_write_from(), 32);
}

TEST(Pages, BetweenHitAndMatchKvIsNotWrittenAgain) {
  CacheConfig config = hybrid(16);
  config.snapshot = no_snapshots();
  Bench bench(config);
  bench.visit(text(1, 48));
  auto again = bench.start(text(1, 48));
  EXPECT_EQ(again.lease.hit(), 0);
  EXPECT_EQ(again.lease.kv_write_from(), 48);
  EXPECT_EQ(bench.cache->stats().pages.pinned, 3u) << "no page of its own";
  bench.step(again, 20);
  bench.step(again, 48);
  EXPECT_EQ(bench.cache->stats().cached_tokens, 48u);
}

TEST(Pages, ASequenceThatOthersOvertookTakesTheirPages) {
  CacheConfig config = attention_only(4);
  config.wait_threshold = 1000;
  Bench bench(config);
  auto one = bench.start(text(1, 20));
  auto two = bench.start(text(1, 20));
  bench.step(one, 20);
  bench.step(two, 20);
  EXPECT_EQ(bench.cache->stats().pages.pinned, 5u);
  EXPECT_TRUE(
      std::equal(one.lease.pages().begin(), one.lease.pages().end(), two.lease.pages().begin()));
}

TEST(Pages, TwoBranchesInsideAPageKeepTheirOwnCopies) {
  Bench bench(attention_only(16));
  expect_branches_inside_a_page_keep_their_copies(bench);
}

// ---- Who waits

TEST(Waiting, APromptWaitsForItsPrefixInFlightAndResumesWhereTheyPart) {
  CacheConfig config = hybrid();
  config.snapshot.idle_interval = 0;
  Bench bench(config);
  auto running = bench.start(text(1, 100));
  bench.step(running, 20);
  const Tokens branch = joined(text(1, 71), text(2, 30));
  EXPECT_EQ(waits(bench.ask(branch)), WaitReason::prefix_in_flight);
  bench.step(running, 60);
  EXPECT_EQ(waits(bench.ask(branch)), WaitReason::prefix_in_flight);
  EXPECT_EQ(bench.step(running, 80), std::vector<Depth>{71});
  EXPECT_EQ(std::get<Lease>(bench.ask(branch)).hit(), 71);
  EXPECT_EQ(bench.cache->stats().waits_in_flight, 2u);
}

TEST(Waiting, IdenticalPromptsAreComputedOnce) {
  Bench bench(hybrid());
  auto running = bench.start(text(1, 100));
  EXPECT_EQ(waits(bench.ask(text(1, 100))), WaitReason::prefix_in_flight);
  bench.step(running, 100);
  EXPECT_EQ(std::get<Lease>(bench.ask(text(1, 100))).hit(), 99);
}

TEST(Waiting, APromptThatGoesOnWhereARunningOneEndsWaitsForItsEnd) {
  Bench bench(hybrid());
  auto running = bench.start(text(1, 100));
  const Tokens longer = text(1, 150);
  EXPECT_EQ(waits(bench.ask(longer)), WaitReason::prefix_in_flight);
  bench.step(running, 100);
  EXPECT_EQ(std::get<Lease>(bench.ask(longer)).hit(), 100);
}

TEST(Waiting, EndsWithTheLeaseThatWasWaitedFor) {
  Bench bench(hybrid());
  {
    auto running = bench.start(text(1, 100));
    EXPECT_EQ(waits(bench.ask(text(1, 100))), WaitReason::prefix_in_flight);
  }
  EXPECT_EQ(std::get<Lease>(bench.ask(text(1, 100))).hit(), 0);
}

TEST(Waiting, NobodyWaitsForLessThanTheThreshold) {
  CacheConfig config = hybrid();
  config.wait_threshold = 10;
  Bench bench(config);
  const auto running = bench.start(text(1, 100));
  EXPECT_TRUE(std::holds_alternative<Lease>(bench.ask(joined(text(1, 9), text(2, 50)))));
  EXPECT_EQ(waits(bench.ask(joined(text(1, 10), text(2, 50)))), WaitReason::prefix_in_flight);
}

TEST(Waiting, NobodyWaitsForWhatNoStateWillBeStoredOf) {
  CacheConfig config = hybrid();
  config.snapshot = no_snapshots();
  config.snapshot.periodic_interval = 40;
  Bench bench(config);
  auto running = bench.start(text(1, 100));
  EXPECT_TRUE(std::holds_alternative<Lease>(bench.ask(joined(text(1, 35), text(2, 50)))));
  EXPECT_EQ(waits(bench.ask(joined(text(1, 45), text(2, 50)))), WaitReason::prefix_in_flight);
  bench.step(running, 42);
  EXPECT_EQ(std::get<Lease>(bench.ask(joined(text(1, 45), text(2, 50)))).hit(), 40);
}

TEST(Waiting, ForPagesOrRowsTakesNothing) {
  Bench pages(attention_only(4, 10));
  pages.visit(text(1, 20));
  const auto holder = pages.start(text(2, 24));
  EXPECT_EQ(waits(pages.ask(text(3, 20))), WaitReason::no_pages);
  EXPECT_EQ(pages.cache->lookup(pages.ns, text(1, 20)).matched, 16)
      << "only what `holder` took is gone";
  EXPECT_TRUE(std::holds_alternative<Lease>(pages.ask(text(3, 16))));

  Bench rows(hybrid(4, 100, 1));
  const auto only = rows.start(text(1, 20));
  EXPECT_EQ(waits(rows.ask(text(2, 20))), WaitReason::no_rows);
}

// ---- Marks

TEST(Marks, ThoseOfHigherValueAreServedFirstAndEvictCheckpoints) {
  CacheConfig config = hybrid(16, 100, 3);
  config.snapshot = no_snapshots();
  config.snapshot.message_snapshot = true;
  config.snapshot.repeat_snapshot = true;
  Bench bench(config);
  auto sequence = bench.start(text(1, 60), {10, 20, 30});
  EXPECT_EQ(bench.step(sequence, 60), (std::vector<Depth>{30, 59}));
  EXPECT_EQ(bench.cache->stats().marks_skipped, 1u) << "the fourth was not even planned";
  bench.finish(std::move(sequence));
  auto next = bench.start(text(2, 60));
  EXPECT_EQ(bench.step(next, 60), std::vector<Depth>{59});
  EXPECT_EQ(bench.cache->stats().evicted_checkpoints, 1u);
}

TEST(Marks, PeriodicOnesLeaveAQuarterOfTheRowsFree) {
  CacheConfig config = hybrid(16, 100, 8);
  config.snapshot = no_snapshots();
  config.snapshot.periodic_interval = 10;
  Bench bench(config);
  auto sequence = bench.start(text(1, 100));
  EXPECT_EQ(bench.step(sequence, 100), (std::vector<Depth>{20, 40, 60, 80, 90}))
      << "rounder multiples first";
  EXPECT_EQ(bench.cache->stats().rows.free, 2u);
  EXPECT_EQ(bench.cache->stats().marks_skipped, 3u) << "10 was not even planned";
}

TEST(Marks, GenerationStoresOncePerPeriod) {
  CacheConfig config = hybrid();
  config.snapshot = no_snapshots();
  config.snapshot.periodic_interval = 10;
  config.snapshot.generation_interval = 10;
  Bench bench(config);
  auto sequence = bench.start(text(1, 15));
  EXPECT_EQ(bench.step(sequence, 15), std::vector<Depth>{10});
  std::vector<Depth> taken;
  for (Depth depth = 16; depth <= 45; ++depth) {
    sequence.lease.append(7);
    ASSERT_TRUE(sequence.lease.reserve(depth));
    for (const Depth mark : bench.engine.compute(sequence, depth)) taken.push_back(mark);
    sequence.lease.advance(depth);
  }
  EXPECT_EQ(taken, (std::vector<Depth>{20, 30, 40}));
  EXPECT_EQ(bench.cache->stats().checkpoints, 1u);
  bench.finish(std::move(sequence));
  EXPECT_EQ(bench.cache->stats().checkpoints, 4u) << "they are published with their tokens";
}

TEST(Marks, AStepThatIsPutOffGivesItsRowsBack) {
  Bench bench(hybrid());
  auto sequence = bench.start(text(1, 100));
  const std::uint32_t free = bench.cache->stats().rows.free;
  const std::size_t all = sequence.lease.prepare_marks(100).size();
  EXPECT_EQ(sequence.lease.prepare_marks(100).size(), all);
  EXPECT_EQ(bench.cache->stats().rows.free, free - all);
  EXPECT_EQ(sequence.lease.prepare_marks(1).size(), 0u);
  EXPECT_EQ(bench.cache->stats().rows.free, free);
}

// ---- Eviction

TEST(Eviction, TakesTheLeastRecentlyUsedPathFromItsEnd) {
  Bench bench(attention_only(4, 10));
  bench.visit(text(1, 16));
  bench.visit(text(2, 16));
  bench.visit(text(1, 16));
  bench.visit(text(3, 16));
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 16)).matched, 16);
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(2, 16)).matched, 8) << "no more than needed goes";
  EXPECT_EQ(bench.cache->stats().evicted_pages, 2u);
}

TEST(Eviction, BranchesGoBeforeTheirStem) {
  Bench bench(attention_only(4, 12));
  bench.visit(joined(text(1, 16), text(2, 16)));
  bench.visit(joined(text(1, 16), text(3, 16)));
  bench.visit(text(4, 28));
  EXPECT_GE(bench.cache->lookup(bench.ns, text(1, 16)).matched, 16);
}

TEST(Eviction, WithItsPagesACheckpointGoesToo) {
  CacheConfig config = hybrid(4, 10, 100);
  config.snapshot = no_snapshots();
  config.snapshot.message_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 40), {8, 30});
  EXPECT_EQ(bench.cache->stats().checkpoints, 2u);
  bench.visit(text(2, 16));
  const Lookup found = bench.cache->lookup(bench.ns, text(1, 40));
  EXPECT_EQ(found.matched, 24);
  EXPECT_EQ(found.usable, 8);
  EXPECT_EQ(bench.cache->stats().checkpoints, 1u);
}

TEST(Eviction, RowsComeFromTheCheckpointUnusedForLongest) {
  CacheConfig config = hybrid(16, 100, 3);
  config.snapshot = no_snapshots();
  config.snapshot.end_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 20));
  bench.visit(text(2, 20));
  bench.visit(text(1, 21));
  bench.visit(text(3, 20));
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 22)).usable, 21);
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(2, 21)).usable, 0);
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(2, 21)).matched, 20) << "its KV stays";
}

TEST(Eviction, ATailBeyondWhatALeaseUsesCanGo) {
  Bench bench(attention_only(4, 10));
  bench.visit(text(1, 40));
  const auto half = bench.start(joined(text(1, 20), text(2, 20)));
  EXPECT_EQ(half.lease.hit(), 20);
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 40)).matched, 20);
}

TEST(Eviction, AFullCacheServesWhateverFits) {
  for (const Depth shared : {5, 8, 13}) {
    Bench bench(hybrid(4, 10, 2));
    bench.visit(text(1, 40));
    EXPECT_TRUE(bench.cache->fits(40));
    EXPECT_FALSE(bench.cache->fits(41));
    bench.visit(joined(text(1, shared), text(2, 40 - shared)));
  }
}

TEST(Eviction, OneRowServesOneSequenceAtATime) {
  Bench bench(hybrid(4, 30, 1));
  bench.visit(text(1, 40));
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 41)).usable, 40);
  auto next = bench.start(text(1, 41));
  EXPECT_EQ(next.lease.lookup().usable, 40);
  EXPECT_EQ(next.lease.hit(), 0) << "the only row can not be source and target";
  EXPECT_EQ(next.lease.kv_write_from(), 40);
}

TEST(Eviction, DoesNotWaitForCopies) {
  Bench bench(hybrid(4, 30, 3));
  bench.visit(text(1, 40));
  auto copying = std::get<Lease>(bench.ask(text(1, 41)));
  const RowId source = *copying.restore_plan().state_from;
  bench.cache->flush();
  bench.verify();
  EXPECT_EQ(*copying.restore_plan().state_from, source);
  EXPECT_EQ(bench.cache->stats().rows.pinned, 2u);
  SimulatedEngine::Sequence sequence{bench.ns, std::move(copying), 41};
  bench.engine.restore(sequence);
}

TEST(Eviction, StatesAloneDoNotKeepEveryPathThatWasEverSeen) {
  CacheConfig config = hybrid(16, 0, 4);
  Bench bench(config);
  for (Token i = 1; i < 50; ++i) bench.visit(text(i, 30));
  EXPECT_LE(bench.cache->stats().nodes, 4u);
  EXPECT_LE(bench.cache->stats().cached_tokens, 4u * 30);
}

// ---- Ends of leases

TEST(LeaseEnd, DroppingOneAtAnyMomentGivesEverythingBack) {
  Bench bench(hybrid());
  const auto everything_is_free = [&] {
    bench.cache->flush();
    const CacheStats stats = bench.cache->stats();
    return stats.pages.free == 100 && stats.rows.free == 100 && stats.leases == 0 &&
           stats.nodes == 0;
  };
  bench.visit(text(1, 40));
  { const auto admitted = bench.ask(text(1, 60)); }
  EXPECT_TRUE(everything_is_free());
  { const auto restored = bench.start(text(1, 60)); }
  EXPECT_TRUE(everything_is_free());
  {
    auto prepared = bench.start(text(1, 60));
    prepared.lease.prepare_marks(60);
  }
  EXPECT_TRUE(everything_is_free());
  {
    auto published = bench.start(text(1, 60));
    bench.step(published, 30);
    bench.engine.compute(published, 60);
    published.lease.advance(60);
  }
  EXPECT_TRUE(everything_is_free());
}

TEST(LeaseEnd, WhatADroppedLeasePublishedStays) {
  Bench bench(hybrid());
  {
    auto sequence = bench.start(text(1, 60), {25});
    bench.step(sequence, 30);
  }
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 60)).matched, 30);
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 60)).usable, 25);
}

TEST(LeaseEnd, APreemptedSequenceResumesWhereItWas) {
  Bench bench(hybrid());
  auto sequence = bench.start(text(1, 60));
  bench.step(sequence, 33);
  bench.finish(std::move(sequence));
  EXPECT_EQ(bench.visit(text(1, 60)), 33);
}

TEST(LeaseEnd, FinishingBeforeTheCopiesWereMadeStoresNothing) {
  Bench bench(hybrid());
  std::get<Lease>(bench.ask(text(1, 60))).computed();
  auto lease = std::get<Lease>(bench.ask(text(1, 60)));
  std::move(lease).finish();
  EXPECT_EQ(bench.cache->stats().checkpoints, 0u);
  EXPECT_EQ(bench.cache->stats().pages.free, 100u);
}

TEST(LeaseEnd, LeasesMove) {
  Bench bench(hybrid());
  auto a = std::get<Lease>(bench.ask(text(1, 20)));
  auto b = std::get<Lease>(bench.ask(text(2, 20)));
  a = std::move(b);
  EXPECT_EQ(bench.cache->stats().leases, 1u);
  EXPECT_EQ(a.tokens()[0], text(2, 1)[0]);
}

TEST(Flush, KeepsWhatLeasesHold) {
  Bench bench(hybrid(4));
  bench.visit(text(1, 40));
  auto sequence = bench.start(joined(text(1, 18), text(2, 10)));
  bench.cache->flush();
  bench.verify();
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 40)).matched, 16);
  EXPECT_EQ(bench.cache->stats().checkpoints, 0u);
  bench.step(sequence, 28);
  bench.finish(std::move(sequence));
  EXPECT_EQ(bench.cache->lookup(bench.ns, joined(text(1, 18), text(2, 10))).matched, 28);
}

// ---- One budget for pages and checkpoints

TEST(SharedBudget, ALoneSequenceGrowsAsFarAsItFits) {
  CacheConfig config = hybrid(1, 60, 6);
  config.row_bytes = 10;
  config.budget_bytes = 60;
  config.snapshot = no_snapshots();
  config.snapshot.generation_interval = 10;
  Bench bench(config);
  auto sequence = bench.start(text(1, 15));
  bench.step(sequence, 15);
  Depth depth = 15;
  for (; bench.cache->fits(depth + 1); ++depth) {
    sequence.lease.append(7);
    ASSERT_TRUE(sequence.lease.reserve(depth + 1))
        << "the rows of marks that are not published give way";
    bench.engine.compute(sequence, depth + 1);
    sequence.lease.advance(depth + 1);
  }
  EXPECT_EQ(depth, 50);
  bench.finish(std::move(sequence));
}

TEST(SharedBudget, ALoneSequenceDoesWithoutASpareRow) {
  CacheConfig config = hybrid(1, 60, 6);
  config.row_bytes = 10;
  config.budget_bytes = 60;
  config.strategy = SchedulerStrategy::extra_buffer;
  Bench bench(config);
  ASSERT_TRUE(bench.cache->fits(50));
  EXPECT_EQ(bench.visit(text(1, 50)), 0);
}

TEST(SharedBudget, AMarkThatCanNotFitEvictsNothing) {
  CacheConfig config = hybrid(1, 60, 6);
  config.row_bytes = 10;
  config.budget_bytes = 60;
  config.snapshot = no_snapshots();
  config.snapshot.repeat_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 1));
  auto large = bench.start(text(2, 45));
  EXPECT_EQ(bench.step(large, 45), std::vector<Depth>{});
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 1)).matched, 1);
}

// ---- Numbers and errors

TEST(Stats, CountLeasesAndWhatLimitedThem) {
  CacheConfig config = hybrid();
  config.snapshot = no_snapshots();
  config.snapshot.repeat_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 40));
  bench.visit(text(1, 40));
  bench.visit(joined(text(1, 20), text(2, 4)));
  const CacheStats stats = bench.cache->stats();
  EXPECT_EQ(stats.lookups, 3u);
  EXPECT_EQ(stats.prompt_tokens, 104u);
  EXPECT_EQ(stats.hit_tokens, 39u);
  const auto limited = [&](ReuseLimit limit) { return stats.limits[static_cast<int>(limit)]; };
  EXPECT_EQ(limited(ReuseLimit::no_such_prefix), 1u);
  EXPECT_EQ(limited(ReuseLimit::whole_prompt), 1u);
  EXPECT_EQ(limited(ReuseLimit::state_not_stored), 1u);
  EXPECT_EQ(stats.marks_taken, 2u);
  EXPECT_EQ(stats.nodes, 3u);
  EXPECT_EQ(stats.cached_tokens, 44u);
}

TEST(Reasons, OfANewNamespaceAreNotThoseOfAnOldOneWhoseNodeItGot) {
  Bench bench(attention_only(4));
  bench.visit(text(1, 20));
  bench.cache->flush();  // forgets the namespace, and gives its root's id back
  const NamespaceId other = bench.cache->namespace_for("other");
  const auto lease = std::get<Lease>(bench.cache->acquire({other, text(1, 20)}));
  EXPECT_EQ(lease.lookup().limit, ReuseLimit::no_such_prefix);
}

TEST(Reasons, WithoutAttentionLayersPathsGoWithTheirLastState) {
  Bench bench(hybrid(16, 0, 2));
  bench.visit(text(1, 20));
  bench.visit(text(2, 20));
  bench.visit(text(3, 20));
  EXPECT_EQ(bench.cache->lookup(bench.ns, text(1, 20)).limit, ReuseLimit::state_evicted);
}

TEST(Reasons, AreExplainedForModelsOfEachKind) {
  for (const auto& config : {attention_only(), hybrid(16, 0, 10), hybrid()}) {
    Bench bench(config);
    bench.visit(text(1, 40));
    bench.visit(joined(text(1, 20), text(2, 20)));
    const Tokens again = joined(text(1, 20), text(3, 5));
    const Explanation told = bench.cache->explain({bench.ns, again});
    EXPECT_EQ(told.lookup.matched, 20);
    EXPECT_EQ(told.forks, std::vector<Depth>{20});
    EXPECT_EQ(told.checkpoints.empty(), config.row_count == 0);
    EXPECT_EQ(told.planned.empty(), config.row_count == 0);
  }
}

TEST(Policy, KnowsWhatALeafThatBeginsInsideAPageFrees) {
  // Sees the entry of the leaf whose last token is `last`.
  struct Watch final : EvictionPolicy {
    void put(EntryId, const EntryInfo& info) override {
      if (info.last_token == last) bytes = info.bytes;
    }
    void used(EntryId, const EntryInfo&) override {}
    void hold(EntryId) override {}
    void erase(EntryId, bool) override {}
    std::optional<EntryId> victim(unsigned) override { return std::nullopt; }
    Token last = 20001;
    double bytes = 0;
  };
  CacheConfig config = attention_only(4);
  config.page_bytes = 100;
  auto owned = std::make_unique<Watch>();
  const Watch& watch = *owned;
  Bench bench(config);
  bench.cache = Cache::create(config, std::move(owned)).value();
  bench.ns = bench.cache->namespace_for("model");
  bench.visit(text(1, 8));
  bench.visit(joined(text(1, 5), text(2, 2)));
  EXPECT_EQ(watch.bytes, 100) << "its own copy of the page that it shares with its sibling";
}

TEST(Config, IsChecked) {
  const auto reason = [](auto change) {
    CacheConfig config = hybrid();
    change(config);
    const auto cache = Cache::create(config);
    return cache ? std::string("none") : cache.error().message();
  };
  EXPECT_EQ(reason([](CacheConfig&) {}), "none");
  EXPECT_EQ(reason([](CacheConfig& c) { c.page_size = 0; }),
            "cache: page_size is 0; it must be 1 to 256");
  EXPECT_EQ(reason([](CacheConfig& c) { c.page_size = 257; }),
            "cache: page_size is 257; it must be 1 to 256");
  EXPECT_EQ(reason([](CacheConfig& c) { c.page_count = c.row_count = 0; }),
            "cache: there are neither pages nor state rows");
  EXPECT_EQ(reason([](CacheConfig& c) { c.page_count = 0xFFFFFFFF; }),
            "cache: page_count is 4294967295; it must be at most 4294967294");
  EXPECT_EQ(reason([](CacheConfig& c) { c.row_count = 0xFFFFFFFF; }),
            "cache: row_count is 4294967295; it must be at most 4294967294");
  EXPECT_EQ(reason([](CacheConfig& c) { c.wait_threshold = 0; }),
            "cache: wait_threshold is 0; it must be at least 1");
  EXPECT_EQ(reason([](CacheConfig& c) { c.snapshot.periodic_interval = -1; }),
            "cache: periodic_interval is -1; it must be at least 1, or 0 for none");
  EXPECT_EQ(reason([](CacheConfig& c) { c.snapshot.idle_interval = -1; }),
            "cache: idle_interval is -1; it must be at least 1, or 0 for none "
            "of its own");
  EXPECT_EQ(reason([](CacheConfig& c) { c.page_bytes = 0; }),
            "cache: page_bytes must be at least 1");
  EXPECT_EQ(reason([](CacheConfig& c) { c.row_bytes = 0; }), "cache: row_bytes must be at least 1");
  EXPECT_EQ(reason([](CacheConfig& c) { c.window = -1; }),
            "cache: window is -1; it must be at least 1, or 0 for none");
  EXPECT_EQ(reason([](CacheConfig& c) { c.window = 4; }),
            "cache: window and window_page_count must be 0 both or neither");
  EXPECT_EQ(reason([](CacheConfig& c) { c.window_page_count = 4; }),
            "cache: window and window_page_count must be 0 both or neither");
  EXPECT_EQ(reason([](CacheConfig& c) { c.window_page_count = 0xFFFFFFFF; }),
            "cache: window_page_count is 4294967295; it must be at most 4294967294");
  EXPECT_EQ(reason([](CacheConfig& c) { c.window_step = 0; }),
            "cache: window_step is 0; it must be at least 1");
  EXPECT_EQ(reason([](CacheConfig& c) {
              c.window = c.window_page_count = 4;
              c.window_page_bytes = 0;
            }),
            "cache: window_page_bytes must be at least 1");
  EXPECT_EQ(reason([](CacheConfig& c) { c.eviction = "fifo"; }),
            "unknown eviction policy fifo; known are value, lru, lfu, slru, "
            "priority, marconi (or "
            "marconi:ALPHA, ALPHA >= 0), seglen");
}

}  // namespace
}  // namespace stemma
