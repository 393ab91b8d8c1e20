// What the prefix cache costs the engine's thread: a 100,000-token path cut into 100 edges, and
// eviction under pressure.

#include <numeric>
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

Lease computed(Cache& cache, NamespaceId ns, const std::vector<Token>& tokens) {
  Lease lease = std::get<Lease>(cache.acquire({ns, tokens, {}}));
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
  for (auto _ : state) benchmark::DoNotOptimize(std::get<Lease>(cache->acquire({ns, tokens, {}})));
}

// Prompts of 3,000 tokens that end inside an edge.
void lookup_of_3k_tokens(benchmark::State& state) {
  const auto cache =
      cut_path(static_cast<int>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
  const NamespaceId ns = cache->namespace_for("bench");
  std::vector<Token> tokens = path();
  tokens.resize(2550);
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

BENCHMARK(lookup_of_100k_tokens)->Args({16, 0})->Args({16, 3000})->Args({1, 0});
BENCHMARK(acquire_and_drop_of_100k_tokens)->Args({16, 0})->Args({16, 3000})->Args({1, 0});
BENCHMARK(lookup_of_3k_tokens)->Args({16, 0})->Args({16, 3000});
BENCHMARK(turnover);

}  // namespace
}  // namespace stemma
