// Random operations on caches of all kinds: all policies, strategies, page sizes, grids, snapshot
// settings; pools of fixed size, one shared budget, and plenty (random_load.h).
//
// What is compared: hits and counts with a set of all prefixes ever published (cache_reference.h),
// the pools' accounts with what running sequences can see (cache_accounts.h), every page, window
// page and state row that a sequence reads with its tokens (simulated_engine.h), what the cache
// tells its policy and the victims it gets with the policy's interface (checked_policy.h), and the
// cache's own invariants.

#include <cstdlib>
#include <iostream>
#include <string>
#include <tuple>

#include "random_load.h"

namespace stemma {
namespace {

// Checked builds are slow, and look at all invariants after every call anyway.
#ifdef STEMMA_CHECKED
constexpr std::uint64_t kSeeds = 2;
constexpr int kThoroughOperations = 500;
constexpr std::uint64_t kOperations = 100'000;
#else
constexpr std::uint64_t kSeeds = 3;
constexpr int kThoroughOperations = 2'000;
constexpr std::uint64_t kOperations = 1'000'000;
#endif

using Kind = std::tuple<const char*, Model, Memory>;

class CacheProperty : public testing::TestWithParam<Kind> {};

TEST_P(CacheProperty, HoldsAfterEveryOperation) {
  const auto [policy, model, memory] = GetParam();
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Random random(seed);
    LoadSetting setting = random_setting(random, model, memory);
    setting.config.eviction = policy;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::PrintToString(setting));
    RandomLoad load(setting, random);
    if (memory == Memory::plentiful) {
      load.run(kThoroughOperations / 2, 50);
    } else {
      load.run(kThoroughOperations, 1);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Pools, CacheProperty,
                         testing::Combine(testing::ValuesIn(kPolicies), testing::ValuesIn(kModels),
                                          testing::Values(Memory::tight)));
INSTANTIATE_TEST_SUITE_P(OneBudget, CacheProperty,
                         testing::Combine(testing::ValuesIn(kPolicies),
                                          testing::Values(Model::both, Model::window_attention,
                                                          Model::window_recurrent, Model::all),
                                          testing::Values(Memory::shared_budget)));
INSTANTIATE_TEST_SUITE_P(Plenty, CacheProperty,
                         testing::Combine(testing::Values("value"), testing::ValuesIn(kModels),
                                          testing::Values(Memory::plentiful)));

// STEMMA_CACHE_OPERATIONS says how many; STEMMA_CACHE_SEED where to start.
std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

TEST(CacheProperty, HoldsOverMillionsOfOperations) {
  const std::uint64_t wanted = number_from("STEMMA_CACHE_OPERATIONS", kOperations);
  std::uint64_t seed = number_from("STEMMA_CACHE_SEED", 1);
  std::uint64_t done = 0;
  std::uint64_t caches = 0;
  CacheStats sum{};
  for (; done < wanted; ++seed, ++caches) {
    Random random(seed);
    const Memory memory = random.of({Memory::tight, Memory::tight, Memory::shared_budget,
                                     Memory::shared_budget, Memory::plentiful});
    const Model model = kModels[random.index(kModels.size())];
    const LoadSetting setting = random_setting(random, model, memory);
    const int operations = memory == Memory::plentiful ? 1'000 : 10'000;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::PrintToString(setting));
    RandomLoad load(setting, random);
    load.run(operations, 500);
    if (HasFailure()) return;
    done += static_cast<std::uint64_t>(operations);
    const CacheStats stats = load.cache().stats();
    sum.lookups += stats.lookups;
    sum.prompt_tokens += stats.prompt_tokens;
    sum.hit_tokens += stats.hit_tokens;
    sum.waits_in_flight += stats.waits_in_flight;
    sum.waits_no_pages += stats.waits_no_pages;
    sum.waits_no_rows += stats.waits_no_rows;
    sum.marks_taken += stats.marks_taken;
    sum.marks_skipped += stats.marks_skipped;
    sum.evicted_pages += stats.evicted_pages;
    sum.evicted_window_pages += stats.evicted_window_pages;
    sum.evicted_checkpoints += stats.evicted_checkpoints;
    for (int limit = 0; limit < kReuseLimits; ++limit) sum.limits[limit] += stats.limits[limit];
  }
  std::cout << done << " operations on " << caches << " caches: " << sum.lookups << " leases, "
            << sum.hit_tokens << " of " << sum.prompt_tokens << " tokens reused, waits "
            << sum.waits_in_flight << "/" << sum.waits_no_pages << "/" << sum.waits_no_rows
            << ", marks " << sum.marks_taken << " taken, " << sum.marks_skipped
            << " skipped, evicted " << sum.evicted_pages << " pages, " << sum.evicted_window_pages
            << " window pages, " << sum.evicted_checkpoints << " checkpoints\n";
  EXPECT_GT(sum.hit_tokens, 0u);
  EXPECT_GT(sum.waits_in_flight, 0u);
  EXPECT_GT(sum.waits_no_pages, 0u);
  EXPECT_GT(sum.waits_no_rows, 0u);
  EXPECT_GT(sum.marks_skipped, 0u);
  EXPECT_GT(sum.evicted_pages, 0u);
  EXPECT_GT(sum.evicted_window_pages, 0u);
  EXPECT_GT(sum.evicted_checkpoints, 0u);
  for (int limit = 0; limit < kReuseLimits; ++limit)
    EXPECT_GT(sum.limits[limit], 0u) << name_of(static_cast<ReuseLimit>(limit));
}

}  // namespace
}  // namespace stemma
