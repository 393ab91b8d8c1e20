#pragma once
// A model of a cache that is too simple to be wrong: the set of all prefixes that were published
// and the set of all at which a checkpoint was stored, by hash.
//
// A real cache evicts, and may know less. But it counts what it has; so where the counts equal the
// sizes of the sets, it has lost nothing and must find exactly what the sets say. After it has lost
// something, refresh() asks it for everything that was ever published, and what it has must again
// be what it counts.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "simulated_engine.h"

namespace stemma {

class CacheReference {
 public:
  explicit CacheReference(const CacheConfig& config) : states_(config.row_count > 0) {}

  // The first `length` tokens were published. `hashes` as by prefix_hashes().
  void publish(const std::vector<std::uint64_t>& hashes, Depth length) {
    prefixes_.insert(hashes.begin() + 1, hashes.begin() + length + 1);
  }
  void store(std::uint64_t prefix) { checkpoints_.insert(prefix); }
  // A sequence has ended of which some prefix was published.
  void remember(NamespaceId ns, std::span<const Token> tokens) {
    paths_.push_back({ns, {tokens.begin(), tokens.end()}});
  }

  // Of a prompt: the tokens that are known from its start, and the hit.
  struct Found {
    Depth matched;
    Depth usable;
  };
  Found lookup(const std::vector<std::uint64_t>& hashes) const {
    const auto length = static_cast<Depth>(hashes.size()) - 1;
    Found found{};
    while (found.matched < length && prefixes_.contains(hashes[found.matched + 1])) ++found.matched;
    found.usable = std::min(found.matched, length - 1);
    while (states_ && found.usable > 0 && !checkpoints_.contains(hashes[found.usable]))
      --found.usable;
    return found;
  }

  // What is wrong with what the cache says of a prompt; nullopt if nothing is.
  std::optional<std::string> differs(const std::vector<std::uint64_t>& hashes, const Lookup& lookup,
                                     const CacheStats& stats) const {
    const Found found = this->lookup(hashes);
    if (lookup.matched > found.matched || lookup.usable > found.usable) return "it claims too much";
    const bool all_tokens = stats.cached_tokens == prefixes_.size();
    const bool all_usable = states_ ? stats.checkpoints == checkpoints_.size() : all_tokens;
    if (all_tokens && lookup.matched < found.matched)
      return "it has all tokens and does not find them";
    if (all_usable && lookup.usable < found.usable)
      return "it has all that can be restored and does not find it";
    return std::nullopt;
  }

  // The counts can not be above what was put in. O(1).
  std::optional<std::string> miscounted(const CacheStats& stats) const {
    if (stats.cached_tokens > prefixes_.size()) return "it counts too many tokens";
    if (stats.checkpoints > checkpoints_.size()) return "it counts too many checkpoints";
    if (stats.nodes > stats.cached_tokens) return "it counts too many nodes";
    return std::nullopt;
  }

  // Asks for all paths, those that ended and those of the running sequences, and keeps what the
  // cache still has. O(tokens of all paths).
  template <class Sequences>
  std::optional<std::string> refresh(const Cache& cache, const Sequences& running) {
    std::unordered_set<std::uint64_t> prefixes;
    std::unordered_set<std::uint64_t> checkpoints;
    const auto ask = [&](NamespaceId ns, std::span<const Token> tokens) {
      const Explanation answer = cache.explain({ns, tokens});
      const auto hashes = prefix_hashes(ns, tokens);
      prefixes.insert(hashes.begin() + 1, hashes.begin() + answer.lookup.matched + 1);
      for (const Depth depth : answer.checkpoints) checkpoints.insert(hashes[depth]);
      return answer.lookup.matched;
    };
    std::erase_if(paths_, [&](const Path& path) { return ask(path.ns, path.tokens) == 0; });
    for (const auto& sequence : running) ask(sequence.ns, sequence.lease.tokens());
    const auto within = [](const auto& found, const auto& known) {
      return std::all_of(found.begin(), found.end(), [&](auto h) { return known.contains(h); });
    };
    if (!within(prefixes, prefixes_)) return "it has tokens that nobody published";
    if (!within(checkpoints, checkpoints_)) return "it has checkpoints that nobody stored";
    const CacheStats stats = cache.stats();
    if (prefixes.size() != stats.cached_tokens)
      return "it counts " + std::to_string(stats.cached_tokens) + " tokens and finds " +
             std::to_string(prefixes.size());
    if (checkpoints.size() != stats.checkpoints)
      return "it counts " + std::to_string(stats.checkpoints) + " checkpoints and finds " +
             std::to_string(checkpoints.size());
    prefixes_ = std::move(prefixes);
    checkpoints_ = std::move(checkpoints);
    return std::nullopt;
  }

 private:
  struct Path {
    NamespaceId ns;
    std::vector<Token> tokens;
  };
  const bool states_;
  std::unordered_set<std::uint64_t> prefixes_;
  std::unordered_set<std::uint64_t> checkpoints_;
  std::vector<Path> paths_;
};

}  // namespace stemma
