// What the prefix cache costs the engine's thread: lookups beside memcmp over the same tokens; what
// a lease, a new leaf, a split and an eviction cost in trees of 10^3 to 10^7 nodes; bytes of
// metadata.
//
// The largest trees take some GiB and a minute to build: --benchmark_filter leaves them out.

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "benchmark/benchmark.h"
#include "cache/cache.h"

namespace stemma {
namespace {

constexpr Depth kLength = 100000;
constexpr int kEdges = 100;

std::vector<Token> path() {
  std::vector<Token> tokens(kLength);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

// A lease whose prompt is computed and in the tree.
Lease computed(Cache& cache, NamespaceId ns, std::span<const Token> tokens) {
  Lease lease = std::get<Lease>(cache.acquire({ns, tokens}));
  lease.restored();
  lease.prepare_marks(static_cast<Depth>(tokens.size()));
  lease.publish(static_cast<Depth>(tokens.size()));
  return lease;
}

// A cache whose path() is cut by a branch every kLength / kEdges tokens.
std::unique_ptr<Cache> cut_path(int page_size, std::uint32_t rows) {
  CacheConfig config;
  config.page_size = page_size;
  config.page_count = 3 * kLength / page_size;
  config.row_count = rows;
  auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("bench");
  const std::vector<Token> tokens = path();
  computed(*cache, ns, tokens);
  for (int edge = 1; edge < kEdges; ++edge) {
    std::vector<Token> branch(tokens.begin(), tokens.begin() + edge * (kLength / kEdges));
    branch.push_back(-1);
    computed(*cache, ns, branch);
  }
  return cache;
}

void memcmp_of_100k_tokens(benchmark::State& state) {
  const std::vector<Token> a = path();
  const std::vector<Token> b = path();
  for (auto _ : state) {
    benchmark::DoNotOptimize(a.data());
    benchmark::DoNotOptimize(std::memcmp(a.data(), b.data(), kLength * sizeof(Token)));
    benchmark::ClobberMemory();
  }
}

void lookup_of_100k_tokens(benchmark::State& state) {
  const auto cache =
      cut_path(static_cast<int>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
  const NamespaceId ns = cache->namespace_for("bench");
  const std::vector<Token> tokens = path();
  for (auto _ : state) benchmark::DoNotOptimize(cache->lookup(ns, tokens));
}

void acquire_and_drop_of_100k_tokens(benchmark::State& state) {
  const auto cache =
      cut_path(static_cast<int>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
  const NamespaceId ns = cache->namespace_for("bench");
  const std::vector<Token> tokens = path();
  for (auto _ : state) benchmark::DoNotOptimize(std::get<Lease>(cache->acquire({ns, tokens})));
}

// Prompts of 3,000 tokens that end inside an edge.
void lookup_of_3k_tokens(benchmark::State& state) {
  const auto cache =
      cut_path(static_cast<int>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
  const NamespaceId ns = cache->namespace_for("bench");
  std::vector<Token> tokens = path();
  tokens.resize(2950);
  tokens.resize(3000, -2);
  for (auto _ : state) benchmark::DoNotOptimize(cache->lookup(ns, tokens));
}

// Distinct prompts of 1,600 tokens through a full cache: each takes the place of an older one.
void turnover(benchmark::State& state) {
  CacheConfig config;
  config.page_count = 10000;
  config.row_count = 1000;
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("bench");
  Token next = 0;
  for (auto _ : state) {
    std::vector<Token> tokens(1600);
    std::iota(tokens.begin(), tokens.end(), next += 1600);
    computed(*cache, ns, tokens).advance(1600);
  }
}

BENCHMARK(memcmp_of_100k_tokens);
BENCHMARK(lookup_of_100k_tokens)->Args({16, 0})->Args({16, 3000})->Args({1, 0})->Args({1, 3000});
BENCHMARK(acquire_and_drop_of_100k_tokens)->Args({16, 0})->Args({16, 3000})->Args({1, 0});
BENCHMARK(lookup_of_3k_tokens)->Args({16, 0})->Args({16, 3000})->Args({1, 0})->Args({1, 3000});
BENCHMARK(turnover);

// ---- Trees of many nodes

enum class Policy { lru, value };

// Stems of 64 tokens, each with a branch of one token at every even depth: 63 nodes a stem, half of
// them leaves. At the odd depths nothing parts yet.
class Forest {
 public:
  static constexpr int kStem = 64;
  static constexpr int kNodes = 63;

  // With room for `spare` pages more than the forest takes.
  Forest(std::int64_t nodes, Policy policy, std::uint32_t spare, std::uint32_t rows = 0)
      : stems_(static_cast<int>(std::max<std::int64_t>(1, nodes / kNodes))) {
    CacheConfig config;
    config.page_count = static_cast<std::uint32_t>(stems_) * kPages + spare;
    config.row_count = rows;
    config.eviction = policy == Policy::lru ? "lru" : "value";
    cache = Cache::create(config).value();
    ns = cache->namespace_for("bench");
    std::vector<Token> tokens;
    for (int stem = 0; stem < stems_; ++stem) {
      for (Depth depth = kStem; depth > 0; depth -= 2) {
        prefix(tokens, stem, depth);
        if (depth < kStem) tokens.push_back(-1);
        computed(*cache, ns, tokens);
      }
    }
  }

  int stems() const { return stems_; }
  // The first `depth` tokens of a stem.
  static void prefix(std::vector<Token>& tokens, int stem, Depth depth) {
    tokens.resize(static_cast<std::size_t>(depth));
    std::iota(tokens.begin(), tokens.end(), stem * kStem);
  }

  std::unique_ptr<Cache> cache;
  NamespaceId ns;

 private:
  static constexpr std::uint32_t kPages = kStem / 16 + 31;  // the stem's, and one a branch

  int stems_;
};

constexpr int kVisits = 400;

// Requests at random stems: one that is in the tree already, one that adds a leaf where others
// part, one that cuts an edge, and one that adds a leaf to a cache that has no free page.
enum class Visit { known, leaf, split, evict };

void visit(benchmark::State& state, Visit kind, Policy policy) {
  Forest forest(state.range(0), policy, kind == Visit::evict ? 0 : 4 * kVisits);
  Cache& cache = *forest.cache;
  std::mt19937 random(1);
  std::vector<Token> tokens;
  std::vector<std::vector<Token>> prompts;
  for (int i = 0; i < kVisits; ++i) {
    const int stem = static_cast<int>(random() % static_cast<unsigned>(forest.stems()));
    const auto half = static_cast<Depth>(random() % 30);
    Forest::prefix(tokens, stem, 2 * half + (kind == Visit::split ? 3 : 2));
    if (kind != Visit::known) tokens.push_back(-10 - i);
    prompts.push_back(tokens);
  }
  const std::uint64_t evicted = cache.stats().evicted_pages;
  std::size_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(computed(cache, forest.ns, prompts[next++]));
  const CacheStats stats = cache.stats();
  state.counters["nodes"] = static_cast<double>(stats.nodes);
  state.counters["evicted"] = static_cast<double>(stats.evicted_pages - evicted);
}

// All entries of a tree, one after the other.
void evict_all(benchmark::State& state, Policy policy) {
  const Forest forest(state.range(0), policy, 0);
  const auto nodes = static_cast<double>(forest.cache->stats().nodes);
  for (auto _ : state) forest.cache->flush();
  state.counters["nodes"] = nodes;
  state.counters["per_node"] =
      benchmark::Counter(nodes, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// A tree that grows to so many leaves: the longest that one whole request took, and how many took
// over a millisecond.
void growth(benchmark::State& state, Policy policy) {
  using Clock = std::chrono::steady_clock;
  const auto leaves = static_cast<std::uint32_t>(state.range(0));
  CacheConfig config;
  config.page_count = leaves;
  config.eviction = policy == Policy::lru ? "lru" : "value";
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("bench");
  std::vector<Token> tokens(2);
  Clock::duration longest{};
  double slow = 0;
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < leaves; ++i) {
      tokens[0] = static_cast<Token>(i);
      const auto begin = Clock::now();
      computed(*cache, ns, tokens);
      const auto took = Clock::now() - begin;
      longest = std::max(longest, took);
      slow += took > std::chrono::milliseconds(1);
    }
  }
  state.counters["longest_ms"] = std::chrono::duration<double, std::milli>(longest).count();
  state.counters["over_1_ms"] = slow;
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (std::int64_t nodes = 1000; nodes <= 10000000; nodes *= 10) bench->Arg(nodes);
}

BENCHMARK_CAPTURE(visit, known, Visit::known, Policy::value)->Apply(sizes)->Iterations(kVisits);
BENCHMARK_CAPTURE(visit, leaf, Visit::leaf, Policy::value)->Apply(sizes)->Iterations(kVisits);
BENCHMARK_CAPTURE(visit, split, Visit::split, Policy::value)->Apply(sizes)->Iterations(kVisits);
BENCHMARK_CAPTURE(visit, evict, Visit::evict, Policy::value)->Apply(sizes)->Iterations(kVisits);
BENCHMARK_CAPTURE(visit, evict_lru, Visit::evict, Policy::lru)->Apply(sizes)->Iterations(kVisits);
BENCHMARK_CAPTURE(evict_all, value, Policy::value)
    ->Apply(sizes)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(evict_all, lru, Policy::lru)
    ->Apply(sizes)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(growth, value, Policy::value)
    ->Arg(1000000)
    ->Arg(10000000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// ---- Bytes

std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Stored nodes of one shape: their metadata as the cache counts it, and all that the heap has for
// them, with tokens, ids of pages, and malloc's own.
void metadata(benchmark::State& state, const std::string& shape, Policy policy, bool states) {
  const std::uint32_t paths = shape == "leaves" ? 100000 : 20000;
  const std::size_t heap_before = heap_bytes();
  CacheConfig config;
  config.page_count = shape == "leaves" ? 4 * paths : 2 * paths + 100000;
  config.row_count = states ? paths : 0;
  config.eviction = policy == Policy::lru ? "lru" : "value";
  const auto cache = Cache::create(config).value();
  const NamespaceId ns = cache->namespace_for("bench");
  const std::size_t pools = heap_bytes() - heap_before;
  std::mt19937 random(1);
  std::vector<Token> tokens;
  std::vector<Lease> pins;
  if (shape == "leaves") {  // no two paths share a token
    for (std::uint32_t i = 0; i < paths; ++i) {
      tokens.assign(64, static_cast<Token>(i));
      computed(*cache, ns, tokens);
    }
  } else if (shape == "forks") {  // each path leaves one of 100 long ones at a random depth
    for (std::uint32_t i = 0; i < paths; ++i) {
      tokens.resize(1 + random() % 4000);
      std::iota(tokens.begin(), tokens.end(), static_cast<Token>(i % 100 * 4000));
      tokens.push_back(-1 - static_cast<Token>(i));
      computed(*cache, ns, tokens);
    }
  } else {  // the same long paths, cut by branches that are gone
    for (std::uint32_t i = 0; i < paths; ++i) {
      tokens.resize(i < 100 ? 4000 : 1 + random() % 4000);
      std::iota(tokens.begin(), tokens.end(), static_cast<Token>(i % 100 * 4000));
      if (i >= 100) tokens.push_back(-1 - static_cast<Token>(i));
      Lease lease = computed(*cache, ns, tokens);
      if (i < 100) pins.push_back(std::move(lease));
      if (i % 100 == 99) cache->flush();
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(cache->stats());
  const CacheStats stats = cache->stats();
  const auto nodes = static_cast<double>(stats.nodes);
  state.counters["nodes"] = nodes;
  state.counters["tokens_per_node"] = static_cast<double>(stats.cached_tokens) / nodes;
  state.counters["metadata_per_node"] = static_cast<double>(stats.metadata_bytes) / nodes;
  state.counters["heap_per_node"] = static_cast<double>(heap_bytes() - heap_before - pools) / nodes;
}

BENCHMARK_CAPTURE(metadata, leaves, "leaves", Policy::value, false)->Iterations(1);
BENCHMARK_CAPTURE(metadata, leaves_states, "leaves", Policy::value, true)->Iterations(1);
BENCHMARK_CAPTURE(metadata, leaves_lru, "leaves", Policy::lru, false)->Iterations(1);
BENCHMARK_CAPTURE(metadata, forks, "forks", Policy::value, false)->Iterations(1);
BENCHMARK_CAPTURE(metadata, forks_states, "forks", Policy::value, true)->Iterations(1);
BENCHMARK_CAPTURE(metadata, chains, "chains", Policy::value, false)->Iterations(1);

}  // namespace
}  // namespace stemma
