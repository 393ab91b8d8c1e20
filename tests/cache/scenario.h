#pragma once
// Short stories about a cache: prompts by number, a cache whose engine computes what is asked of
// it, and the usual configurations.

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "simulated_engine.h"

namespace stemma {

using Tokens = std::vector<Token>;

// `count` tokens that start with `first` and differ between values of `first`.
inline Tokens text(Token first, int count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first * 10000);
  return tokens;
}

inline Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Only what a test asks for is stored.
inline SnapshotSettings no_snapshots() {
  return {.periodic_interval = 0,
          .idle_interval = 0,
          .generation_interval = 0,
          .ladder_start = 0,
          .offsets_from_start = {},
          .offsets_from_end = {},
          .branch_snapshot = false,
          .message_snapshot = false,
          .repeat_snapshot = false,
          .end_snapshot = false,
          .path_share = 1};
}

// A cache with an engine that computes what is asked of it.
struct Bench {
  explicit Bench(CacheConfig config)
      : engine(config),
        cache(Cache::create(config).value()),
        window_step(config.window > 0 ? config.window_step : 0) {
    ns = cache->namespace_for("model");
  }

  std::variant<Lease, WaitReason> ask(const Tokens& tokens,
                                      const std::vector<Depth>& message_ends = {}) {
    return cache->acquire({ns, tokens, message_ends});
  }

  // A request that is admitted and has its copies made.
  SimulatedEngine::Sequence start(const Tokens& tokens,
                                  const std::vector<Depth>& message_ends = {}) {
    SimulatedEngine::Sequence sequence{ns, std::get<Lease>(ask(tokens, message_ends)),
                                       static_cast<Depth>(tokens.size())};
    engine.restore(sequence);
    return sequence;
  }

  // A step up to `to`; the depths of its checkpoints.
  std::vector<Depth> step(SimulatedEngine::Sequence& sequence, Depth to) {
    std::vector<Depth> marks = engine.compute(sequence, to);
    sequence.lease.publish(to);
    verify();
    return marks;
  }

  void finish(SimulatedEngine::Sequence sequence) {
    std::move(sequence.lease).finish();
    verify();
  }

  // All tokens of a sequence, in one step, or in as many as a window asks for.
  void compute(SimulatedEngine::Sequence& sequence) {
    const auto length = static_cast<Depth>(sequence.lease.tokens().size());
    const Depth most = window_step > 0 ? window_step : length;
    while (sequence.lease.computed() < length) {
      const Depth to = std::min(length, sequence.lease.computed() + most);
      ASSERT_TRUE(sequence.lease.reserve(to));
      step(sequence, to);
    }
  }

  // A whole request without output; how much it reused.
  Depth visit(const Tokens& tokens, const std::vector<Depth>& message_ends = {}) {
    SimulatedEngine::Sequence sequence = start(tokens, message_ends);
    const Depth hit = sequence.lease.hit();
    compute(sequence);
    finish(std::move(sequence));
    return hit;
  }

  void verify() { ASSERT_EQ(cache->verify(), std::nullopt); }

  SimulatedEngine engine;
  std::unique_ptr<Cache> cache;
  NamespaceId ns;
  const Depth window_step;  // 0: without a window
};

inline CacheConfig hybrid(int page_size = 16, std::uint32_t pages = 100, std::uint32_t rows = 100) {
  CacheConfig config;
  config.page_size = page_size;
  config.page_count = pages;
  config.row_count = rows;
  config.eviction = "lru";
  return config;
}

inline CacheConfig attention_only(int page_size = 16, std::uint32_t pages = 100) {
  return hybrid(page_size, pages, 0);
}

// Layers with a sliding window beside others, and steps of a page.
inline CacheConfig with_window(CacheConfig config, Depth window, std::uint32_t pages) {
  config.window = window;
  config.window_page_count = pages;
  config.window_step = config.page_size;
  return config;
}

// Two prompts that part inside a page, computed in turns.
inline void expect_branches_inside_a_page_keep_their_copies(Bench& bench) {
  bench.visit(text(1, 5));
  auto left = bench.start(joined(text(1, 5), text(2, 6)));
  auto right = bench.start(joined(text(1, 5), text(3, 6)));
  bench.step(left, 8);
  bench.step(right, 11);
  bench.step(left, 11);
  bench.engine.check(left);
  bench.engine.check(right);
  bench.finish(std::move(left));
  bench.finish(std::move(right));
  EXPECT_EQ(bench.visit(joined(text(1, 5), text(2, 6))), 10);
  EXPECT_EQ(bench.visit(joined(text(1, 5), text(3, 6))), 10);
}

inline WaitReason waits(const std::variant<Lease, WaitReason>& answer) {
  return std::get<WaitReason>(answer);
}

}  // namespace stemma
