// Layers with a sliding window: what they make resumable, what a lease of them holds, and what goes
// when memory is short.
//
// SGLang's behaviours of its SWA component are those of its hook table and of the rows T26 and T27
// of our notes; the tests say where ours is the same and where it gives more.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "scenario.h"

namespace stemma {
namespace {

constexpr Depth kPage = 4;
constexpr Depth kWindow = 8;  // two pages

CacheConfig window_only(std::uint32_t pages = 100) {
  return with_window(hybrid(kPage, 0, 0), kWindow, pages);
}
CacheConfig window_and_kv(std::uint32_t pages = 100) {
  return with_window(attention_only(kPage, 4000), kWindow, pages);
}
CacheConfig window_and_states(std::uint32_t pages = 100, std::uint32_t rows = 100) {
  return with_window(hybrid(kPage, 0, rows), kWindow, pages);
}
CacheConfig window_kv_and_states(std::uint32_t pages = 100, std::uint32_t rows = 100) {
  return with_window(hybrid(kPage, 4000, rows), kWindow, pages);
}

// What a prompt that goes on after the first `depth` tokens of text(1) would reuse.
Lookup after(const Bench& bench, Depth depth) {
  return bench.cache->lookup(bench.ns, joined(text(1, depth), {-7}));
}

std::vector<DepthRange> windows(const Bench& bench, int length) {
  const Tokens tokens = joined(text(1, length), {-7});
  return bench.cache->explain({bench.ns, tokens}).window;
}

// Other requests, each of one page, until so many window pages are gone, least recently used first.
void evict_pages(Bench& bench, std::uint64_t count) {
  const std::uint64_t before = bench.cache->stats().evicted_window_pages;
  std::vector<Lease> holders;
  for (Token i = 900; bench.cache->stats().evicted_window_pages < before + count; ++i)
    holders.push_back(std::get<Lease>(bench.ask(text(i, 1))));
}

// ---- What is reused

TEST(Window, WhileMemoryIsIdleEveryDepthIsResumed) {
  // SGLang: only ends of nodes and of pages.
  for (const CacheConfig& config : {window_only(), window_and_kv()}) {
    for (Depth depth = 1; depth <= 30; ++depth) {
      Bench bench(config);
      bench.visit(text(1, 30));
      EXPECT_EQ(bench.visit(joined(text(1, depth), text(2, 5))), depth);
      EXPECT_EQ(bench.visit(text(1, 30)), 29) << "and the first is as it was";
    }
  }
}

TEST(Window, WithStatesTheHitIsAStateWithItsWindow) {
  for (CacheConfig config : {window_and_states(), window_kv_and_states()}) {
    config.snapshot = no_snapshots();
    config.snapshot.offsets_from_start = {10, 23};
    Bench bench(config);
    bench.visit(text(1, 30));
    EXPECT_EQ(bench.visit(joined(text(1, 22), text(2, 5))), 10);
    EXPECT_EQ(bench.visit(joined(text(1, 25), text(2, 5))), 23);
  }
}

TEST(Window, ADepthNeedsAllPagesOfItsWindowAndNoOthers) {
  Bench bench(window_and_kv(8));
  bench.visit(text(1, 32));  // eight pages
  ASSERT_EQ(windows(bench, 32), (std::vector<DepthRange>{{0, 32}}));
  evict_pages(bench, 2);
  ASSERT_EQ(windows(bench, 32), (std::vector<DepthRange>{{0, 16}, {24, 32}}));
  // SGLang: "contiguous window reached since last gap".
  EXPECT_EQ(after(bench, 32).usable, 32) << "its window is [24, 32)";
  EXPECT_EQ(after(bench, 31).usable, 16) << "its window begins in a page that is gone";
  EXPECT_EQ(after(bench, 31).limit, ReuseLimit::window_evicted);
  EXPECT_EQ(after(bench, 31).matched, 31) << "the KV of the other layers is there";
  EXPECT_EQ(after(bench, 16).usable, 16);
}

TEST(Window, AWindowShorterThanAPageNeedsOnePage) {
  Bench bench(with_window(attention_only(kPage, 200), 1, 8));
  bench.visit(text(1, 32));
  evict_pages(bench, 3);
  ASSERT_EQ(windows(bench, 32), (std::vector<DepthRange>{{0, 16}, {28, 32}}));
  EXPECT_EQ(after(bench, 29).usable, 29);
  EXPECT_EQ(after(bench, 28).usable, 16);
}

TEST(Window, ComputingAgainFillsHoles) {
  // SGLang's insert recovers tombstones, too.
  Bench bench(window_and_kv(9));
  bench.visit(text(1, 32));
  evict_pages(bench, 4);
  ASSERT_EQ(windows(bench, 32), (std::vector<DepthRange>{{0, 8}, {24, 32}}));
  EXPECT_EQ(bench.visit(text(1, 15)), 8);
  EXPECT_EQ(windows(bench, 15), (std::vector<DepthRange>{{0, 12}}))
      << "a page in which the path goes on is filled by who fills it all";
  EXPECT_EQ(bench.visit(text(1, 17)), 12);
  EXPECT_EQ(windows(bench, 16), (std::vector<DepthRange>{{0, 16}}));
}

TEST(Window, PathsOfWhichNothingIsLeftGo) {
  Bench bench(window_only(8));
  bench.visit(text(1, 32));
  evict_pages(bench, 7);
  EXPECT_EQ(after(bench, 32).matched, 32);
  evict_pages(bench, 1);
  EXPECT_EQ(after(bench, 32).matched, 0);
  EXPECT_EQ(after(bench, 32).limit, ReuseLimit::window_evicted);
}

TEST(Window, NamespacesDoNotShare) {
  Bench bench(window_only());
  bench.visit(text(1, 30));
  const Lookup found = bench.cache->lookup(bench.cache->namespace_for("model, salt"), text(1, 30));
  EXPECT_EQ(found.usable, 0);
  EXPECT_EQ(found.limit, ReuseLimit::other_namespace);
}

TEST(Window, APromptWaitsForItsPrefixInFlight) {
  CacheConfig config = window_only();
  config.wait_threshold = 4;
  Bench bench(config);
  auto running = bench.start(text(1, 30));
  const Tokens branch = joined(text(1, 17), text(2, 9));
  EXPECT_EQ(waits(bench.ask(branch)), WaitReason::prefix_in_flight);
  bench.compute(running);
  EXPECT_EQ(std::get<Lease>(bench.ask(branch)).hit(), 17);
}

// ---- What a lease has

TEST(WindowLease, HasThePagesOfItsWindowAndOfAStepWhateverTheLengthOfThePrompt) {
  for (const Depth window : {1, 3, 8, 30}) {
    for (const Depth step : {1, 4, 7, 50}) {
      CacheConfig config = with_window(hybrid(kPage, 0, 0), window, 200);
      config.window_step = step;
      Bench bench(config);
      auto sequence = bench.start(text(1, 400));
      std::uint32_t most = 0;
      while (sequence.lease.computed() < 400) {
        const Depth to = std::min(400, sequence.lease.computed() + step);
        ASSERT_TRUE(sequence.lease.reserve(to));
        most = std::max(most, bench.cache->stats().window_pages.pinned);
        bench.step(sequence, to);
      }
      EXPECT_LE(static_cast<Depth>(most), (window + step) / kPage + 2);
    }
  }
}

TEST(WindowLease, WhatTheWindowLeavesBehindIsLetGoAndStaysForOthers) {
  // SGLang's requests lock upwards until the window is filled, and free what a request that decodes
  // leaves behind: here others can still use it.
  Bench bench(window_and_kv());
  auto sequence = bench.start(text(1, 4));
  bench.compute(sequence);
  for (Depth depth = 5; depth <= 40; ++depth) {
    sequence.lease.append(10000 + depth - 1);
    ASSERT_TRUE(sequence.lease.reserve(depth));
    bench.engine.compute(sequence, depth);
    sequence.lease.advance(depth);
    bench.verify();
    const WindowPages pages = sequence.lease.window_pages();
    EXPECT_EQ(pages.first, static_cast<std::size_t>(std::max(0, depth - kWindow) / kPage));
    EXPECT_LE(pages.ids.size(), 3u);
  }
  EXPECT_EQ(bench.cache->stats().window_pages.evictable, 8u);
  EXPECT_EQ(after(bench, 31).usable, 31);
  bench.finish(std::move(sequence));
  EXPECT_EQ(after(bench, 40).usable, 40);
}

TEST(WindowLease, WholePagesAreSharedAndThePartialOneIsCopied) {
  Bench bench(window_and_kv());
  auto one = bench.start(text(1, 24));
  bench.compute(one);
  const WindowPages theirs = one.lease.window_pages();
  ASSERT_EQ(theirs.first, 4u);
  auto two = std::get<Lease>(bench.ask(joined(text(1, 23), text(2, 30))));
  const WindowPages mine = two.window_pages();
  ASSERT_EQ(mine.first, 3u);
  EXPECT_EQ(mine.ids[1], theirs.ids[0]);
  EXPECT_NE(mine.ids[2], theirs.ids[1]);
  const auto& copy = two.restore_plan().window_copy;
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, theirs.ids[1]);
  EXPECT_EQ(copy->to, mine.ids[2]);
  EXPECT_EQ(copy->slots, 3);
  const auto third = std::get<Lease>(bench.ask(joined(text(1, 20), text(3, 30))));
  EXPECT_FALSE(third.restore_plan().window_copy) << "nothing is copied at the end of a page";
}

TEST(WindowLease, PinsWhatItResumesFromUntilTheWindowHasLeftIt) {
  Bench bench(window_only());
  bench.visit(text(1, 24));
  const auto pinned = [&] { return bench.cache->stats().window_pages.pinned; };
  ASSERT_EQ(pinned(), 0u);
  auto sequence = bench.start(joined(text(1, 24), text(2, 30)));
  EXPECT_EQ(pinned(), 2u + 1u) << "its window, and a page of its own";
  bench.cache->flush();
  bench.verify();
  bench.compute(sequence);
  bench.finish(std::move(sequence));
  EXPECT_EQ(pinned(), 0u);
  EXPECT_EQ(bench.cache->lookup(bench.ns, joined(text(1, 24), text(2, 30))).usable, 53);
}

TEST(WindowLease, ASequenceThatOthersOvertookTakesTheirPages) {
  CacheConfig config = window_and_kv();
  config.wait_threshold = 1000;
  Bench bench(config);
  auto one = bench.start(text(1, 12));
  auto two = bench.start(text(1, 12));
  bench.compute(one);
  bench.compute(two);
  EXPECT_TRUE(std::ranges::equal(one.lease.window_pages().ids, two.lease.window_pages().ids));
  EXPECT_EQ(bench.cache->stats().window_pages.free, 100u - 3u);
}

TEST(WindowLease, TwoBranchesInsideAPageKeepTheirOwnCopies) {
  Bench bench(with_window(attention_only(16, 100), kWindow, 100));
  expect_branches_inside_a_page_keep_their_copies(bench);
  EXPECT_EQ(after(bench, 5).usable, 5);
}

TEST(WindowLease, ThatIsDroppedGivesEverythingBack) {
  Bench bench(window_kv_and_states());
  bench.visit(text(1, 30));
  const CacheStats before = bench.cache->stats();
  { const auto dropped = std::get<Lease>(bench.ask(joined(text(1, 26), text(2, 30)))); }
  {
    auto sequence = bench.start(joined(text(1, 26), text(2, 30)));
    bench.engine.compute(sequence, sequence.lease.hit() + kPage);
  }
  bench.verify();
  const CacheStats after = bench.cache->stats();
  EXPECT_EQ(after.window_pages.pinned, 0u);
  EXPECT_EQ(after.window_pages.free, before.window_pages.free);
}

TEST(WindowLease, WhatFitsIsServedByAFullCache) {
  for (const Depth shared : {3, 8, 17, 30}) {
    // A window and a step of one page, and where neither begins a page one more.
    Bench bench(with_window(attention_only(kPage, 200), kWindow, 4));
    EXPECT_TRUE(bench.cache->fits(800));
    bench.visit(text(1, 40));
    bench.visit(joined(text(1, shared), text(2, 40 - shared)));
    EXPECT_FALSE(bench.cache->fits(801)) << "the other layers need pages for all";
  }
  EXPECT_FALSE(Bench(window_and_kv(3)).cache->fits(13));
  EXPECT_TRUE(Bench(window_and_kv(3)).cache->fits(12));
}

TEST(WindowLease, ForWindowPagesOthersWait) {
  Bench bench(window_only(4));
  const auto holder = bench.start(text(1, 40));
  bench.visit(text(2, 12));
  auto second = bench.start(text(3, 40));
  auto third = bench.start(text(4, 40));
  auto fourth = bench.start(text(5, 40));
  EXPECT_EQ(waits(bench.ask(text(6, 40))), WaitReason::no_pages);
  EXPECT_TRUE(second.lease.reserve(4));
  EXPECT_FALSE(second.lease.reserve(5)) << "a step that finds no page is refused";
  bench.verify();
}

// ---- What goes first

TEST(WindowEviction, TakesSinglePagesAndLeavesTheOtherLayersKv) {
  Bench bench(window_and_kv(8));
  bench.visit(text(1, 32));
  evict_pages(bench, 1);
  EXPECT_EQ(bench.cache->stats().evicted_window_pages, 1u);
  EXPECT_EQ(bench.cache->stats().evicted_pages, 0u);
  EXPECT_EQ(after(bench, 32).matched, 32);
}

TEST(WindowEviction, KvThatGoesTakesItsWindowPagesAlong) {
  Bench bench(with_window(attention_only(kPage, 10), kWindow, 100));
  bench.visit(text(1, 40));
  bench.visit(text(2, 16));
  EXPECT_EQ(after(bench, 40).matched, 24);
  EXPECT_EQ(after(bench, 40).usable, 24);
  EXPECT_EQ(bench.cache->stats().evicted_window_pages, 4u);
}

TEST(WindowEviction, TheEndOfALongPathOutlastsItsInside) {
  // Ten times as many pages as there are: the next turn goes on where the last one ended.
  for (const char* policy : {"lru", "value", "slru", "priority"}) {
    CacheConfig config = window_and_kv(20);
    config.eviction = policy;
    Bench bench(config);
    bench.visit(text(1, 799));
    EXPECT_EQ(bench.visit(text(1, 800)), 799) << policy;
  }
}

TEST(WindowEviction, TheDefaultPolicyKeepsEndsOfConversationsRatherThanWhatLiesInside) {
  CacheConfig config = window_and_kv(60);
  config.eviction = "value";
  Bench bench(config);
  constexpr int kConversations = 8;
  int resumed = 0;
  int turns = 0;
  for (int turn = 1; turn <= 12; ++turn) {
    for (Token c = 1; c <= kConversations; ++c) {
      // 25 pages more each time: if all were alike, no end would be there when it is asked for.
      const Depth hit = bench.visit(text(c, turn * 100 + 1));
      if (turn <= 4) continue;
      ++turns;
      resumed += hit == (turn - 1) * 100 + 1;  // where the last turn ended
    }
  }
  EXPECT_GE(resumed, turns * 9 / 10);
}

TEST(WindowEviction, AForksWindowServesAllThatPartThere) {
  Bench bench(window_and_kv(24));
  for (Token branch = 2; branch <= 5; ++branch) bench.visit(joined(text(1, 61), text(branch, 60)));
  for (Token branch = 6; branch <= 12; ++branch)
    EXPECT_EQ(bench.visit(joined(text(1, 61), text(branch, 60))), 61);
}

// What the policy is told of the window pages that no lease has.
class WindowWorth : public testing::Test {
 protected:
  struct Watch final : EvictionPolicy {
    void put(EntryId entry, const EntryInfo& info) override {
      if (entry.kind == 0) pages[entry.slot] = info;
    }
    void used(EntryId, const EntryInfo&) override {}
    void hold(EntryId entry) override {
      if (entry.kind == 0) pages.erase(entry.slot);
    }
    void erase(EntryId entry, bool) override { hold(entry); }
    std::optional<EntryId> victim(unsigned) override { return std::nullopt; }
    std::map<std::uint32_t, EntryInfo> pages;
  };

  explicit WindowWorth(CacheConfig config = window_and_kv()) : bench(priced(config)) {
    auto owned = std::make_unique<Watch>();
    watch = owned.get();
    bench.cache = Cache::create(priced(config), std::move(owned)).value();
    bench.ns = bench.cache->namespace_for("model");
  }
  static CacheConfig priced(CacheConfig config) {
    config.window_page_bytes = 10;
    return config;
  }
  // Of the pages that end at a depth, by place.
  std::vector<EntryPlace> places(Depth depth) const {
    std::vector<EntryPlace> found;
    for (const auto& [slot, info] : watch->pages) {
      if (info.depth == depth) found.push_back(info.place);
    }
    std::ranges::sort(found);
    return found;
  }
  const EntryInfo& only(Depth depth) const {
    const auto found = std::ranges::find_if(
        watch->pages, [depth](const auto& page) { return page.second.depth == depth; });
    return found->second;
  }

  Bench bench;
  Watch* watch;
};

TEST_F(WindowWorth, InsideAPathAPageSavesItsTokens) {
  bench.visit(text(1, 40));
  ASSERT_EQ(watch->pages.size(), 10u);
  for (Depth depth = 4; depth <= 32; depth += kPage) {
    EXPECT_EQ(only(depth).place, EntryPlace::inside);
    EXPECT_EQ(only(depth).cost, kPage);
    EXPECT_EQ(only(depth).bytes, 10);
    EXPECT_EQ(only(depth).last_used, 0u) << "nobody went on from there";
  }
}

TEST_F(WindowWorth, TheWindowOfAPathsEndIsOneThing) {
  bench.visit(text(1, 39));
  for (const Depth depth : {32, 36, 39}) {
    EXPECT_EQ(only(depth).place, EntryPlace::end);
    EXPECT_EQ(only(depth).cost, 39 - 28) << "from where the window's first page begins";
    EXPECT_EQ(only(depth).bytes, 30);
    EXPECT_EQ(only(depth).stands_for_another, depth < 39) << "it is told of once";
  }
}

TEST_F(WindowWorth, SoIsTheWindowOfAFork) {
  bench.visit(text(1, 40));
  bench.visit(joined(text(1, 22), text(2, 20)));
  using enum EntryPlace;
  EXPECT_EQ(places(16), std::vector{fork});
  EXPECT_EQ(places(20), std::vector{fork});
  EXPECT_EQ(places(22), std::vector{fork}) << "the page that the first path goes on in";
  EXPECT_EQ(places(24), std::vector{inside}) << "the second one's copy";
  EXPECT_EQ(only(22).cost, 22 - 12);
  EXPECT_EQ(only(22).bytes, 30);
  EXPECT_EQ(only(22).uses, 1u);
  EXPECT_EQ(places(12), std::vector{inside});
}

TEST_F(WindowWorth, APageInUseIsNotToBeNamed) {
  bench.visit(text(1, 40));
  const auto lease = std::get<Lease>(bench.ask(joined(text(1, 22), text(2, 20))));
  for (const WindowPageId page : lease.window_pages().ids)
    EXPECT_FALSE(watch->pages.contains(index_of(page)));
  EXPECT_FALSE(watch->pages.contains(index_of(lease.restore_plan().window_copy->from)));
  EXPECT_EQ(watch->pages.size(), 10u - 3u);
}

class WindowAndStateWorth : public WindowWorth {
 protected:
  WindowAndStateWorth() : WindowWorth(config()) {}
  static CacheConfig config() {
    CacheConfig config = window_and_states();
    config.snapshot = no_snapshots();
    config.snapshot.offsets_from_start = {24};
    return config;
  }
};

TEST_F(WindowAndStateWorth, WhatNoStateNeedsSavesNothing) {
  bench.visit(text(1, 40));
  for (Depth depth = 4; depth <= 40; depth += kPage) {
    const bool needed = depth == 20 || depth == 24;
    EXPECT_EQ(only(depth).cost, needed ? 24 : 0) << depth;
    EXPECT_EQ(only(depth).bytes, needed ? 20 : 10);
    EXPECT_EQ(only(depth).stands_for_another, needed) << "for the state";
  }
}

// T26: where SGLang evicts a window's KV on a node, the state of that node goes too, and full KV is
// spared. Here the state stays as well: it serves again when the window is computed again.
TEST(SglangT26, WindowPagesGoAlone) {
  CacheConfig config = window_kv_and_states(10);
  config.snapshot = no_snapshots();
  config.snapshot.offsets_from_start = {32};
  Bench bench(config);
  bench.visit(text(1, 32));
  ASSERT_EQ(after(bench, 32).usable, 32);
  evict_pages(bench, 8);
  EXPECT_EQ(after(bench, 32).usable, 0);
  EXPECT_EQ(after(bench, 32).matched, 32) << "full KV is spared";
  EXPECT_EQ(after(bench, 32).limit, ReuseLimit::window_evicted);
  EXPECT_EQ(bench.cache->stats().checkpoints, 1u) << "SGLang: 0";
  bench.visit(text(1, 32));
  EXPECT_EQ(after(bench, 32).usable, 32);
}

TEST(SglangT26, AStateThatGoesLeavesWindowAndKv) {
  CacheConfig config = window_kv_and_states(100, 3);
  config.snapshot = no_snapshots();
  config.snapshot.end_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 32));
  std::vector<Lease> holders;
  for (Token i = 2; i <= 4; ++i) holders.push_back(std::get<Lease>(bench.ask(text(i, 1))));
  EXPECT_EQ(bench.cache->stats().checkpoints, 0u);
  EXPECT_EQ(after(bench, 32).matched, 32);
  EXPECT_EQ(after(bench, 32).limit, ReuseLimit::state_evicted);
  EXPECT_EQ(windows(bench, 32), (std::vector<DepthRange>{{0, 32}}));
}

// T27: SGLang asserts that a state is never locked without its window. A lease that copies a state
// has its window pinned too: nothing of a hit can go while it is used.
TEST(SglangT27, AHitIsPinnedAsAWhole) {
  CacheConfig config = window_kv_and_states();
  config.snapshot = no_snapshots();
  config.snapshot.end_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 30));
  auto next = std::get<Lease>(bench.ask(text(1, 40)));
  ASSERT_EQ(next.hit(), 30);
  bench.cache->flush();
  bench.verify();
  EXPECT_EQ(bench.cache->stats().window_pages.pinned, 3u + 2u) << "its window, its copy, its step";
  EXPECT_EQ(bench.cache->stats().rows.pinned, 2u);
  SimulatedEngine::Sequence sequence{bench.ns, std::move(next), 40};
  bench.engine.restore(sequence);  // checks what it reads
  bench.compute(sequence);
}

// SGLang keeps a window's KV back to "last tracked length - window", or the state could not be
// used.
TEST(SglangWindow, WhatAStateNeedsOutlastsWhatNoStateNeeds) {
  CacheConfig config = window_and_states(24, 100);
  config.snapshot = no_snapshots();
  config.snapshot.offsets_from_start = {41};
  config.snapshot.end_snapshot = true;
  config.eviction = "value";
  Bench bench(config);
  bench.visit(text(1, 95));
  bench.visit(text(2, 40));  // ten pages more than there are
  EXPECT_EQ(after(bench, 95).usable, 95);
  EXPECT_EQ(after(bench, 94).usable, 41);
}

// ---- One budget for all

TEST(WindowBudget, PagesOfAllKindsCompete) {
  CacheConfig config = window_kv_and_states(40, 40);
  config.page_count = 40;
  config.budget_bytes = 40;
  config.snapshot = no_snapshots();
  config.snapshot.end_snapshot = true;
  Bench bench(config);
  bench.visit(text(1, 40));
  EXPECT_EQ(bench.cache->stats().budget_free_bytes, 40u - 10u - 10u - 1u);
  for (Token i = 2; i <= 20; ++i) {
    bench.visit(text(i, 40));
    const CacheStats stats = bench.cache->stats();
    EXPECT_LE(stats.pages.evictable + stats.window_pages.evictable + stats.rows.evictable, 40u);
    EXPECT_EQ(bench.visit(text(i, 41)), 40) << "what was used last is there";
  }
  const Cache::Cooled cooled = bench.cache->take_cooled();
  EXPECT_FALSE(bench.cache->fits(1000));
}

}  // namespace
}  // namespace stemma
