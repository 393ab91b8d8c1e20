#pragma once
// A model of a cache that is too simple to be wrong: the set of all prefixes that were published,
// the set of all at which a checkpoint was stored, and the set of all whose last window page was
// published, by hash.
//
// A real cache evicts, and may know less. But it counts what it has; so where the counts equal the
// sizes of the sets, it has lost nothing and must find exactly what the sets say. After it has lost
// something, refresh() asks it for everything that was ever published, and what it has must again
// be what it counts. Window pages it does not count by prefixes; but it counts those that it lost.

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
  explicit CacheReference(const CacheConfig& config)
      : states_(config.row_count > 0), window_(config.window), page_size_(config.page_size) {}

  // The first `length` tokens were published, and window pages from that of index `window_first`
  // on. `hashes` as by prefix_hashes(); `lost` is how many window pages the cache has ever lost.
  void publish(const std::vector<std::uint64_t>& hashes, Depth length, std::size_t window_first,
               std::uint64_t lost) {
    prefixes_.insert(hashes.begin() + 1, hashes.begin() + length + 1);
    if (window_ == 0) return;
    const Depth whole = length / page_size_ * page_size_;
    for (Depth depth = static_cast<Depth>(window_first) * page_size_ + 1; depth <= length;
         ++depth) {
      maybe_in_window_.insert(hashes[depth]);
      // A part of a page is of no use where somebody went on inside the page whose own was lost.
      if (depth <= whole || lost == 0) in_window_.insert(hashes[depth]);
    }
  }
  void store(std::uint64_t prefix) { checkpoints_.insert(prefix); }
  // A sequence has ended of which some prefix was published.
  void remember(NamespaceId ns, std::span<const Token> tokens) {
    paths_.push_back({ns, {tokens.begin(), tokens.end()}});
  }

  // Of a prompt: the tokens that are known from its start, the hit if no window page was lost, and
  // the deepest that it may be.
  struct Found {
    Depth matched;
    Depth usable;
    Depth most_usable;
  };
  Found lookup(const std::vector<std::uint64_t>& hashes) const {
    const auto length = static_cast<Depth>(hashes.size()) - 1;
    Found found{};
    while (found.matched < length && prefixes_.contains(hashes[found.matched + 1])) ++found.matched;
    const auto deepest = [&](const Prefixes& in_window) {
      Depth depth = std::min(found.matched, length - 1);
      while (depth > 0 && !restorable(hashes, depth, in_window)) --depth;
      return depth;
    };
    found.usable = deepest(in_window_);
    found.most_usable = deepest(maybe_in_window_);
    return found;
  }

  // What is wrong with what the cache says of a prompt; nullopt if nothing is.
  std::optional<std::string> differs(const std::vector<std::uint64_t>& hashes, const Lookup& lookup,
                                     const CacheStats& stats) const {
    const Found found = this->lookup(hashes);
    if (lookup.matched > found.matched || lookup.usable > found.most_usable)
      return "it claims too much";
    const bool all_tokens = stats.cached_tokens == prefixes_.size();
    const bool all_windows = window_ == 0 || (stats.evicted_window_pages == lost_ && all_tokens);
    const bool all_usable =
        all_windows && (states_ ? stats.checkpoints == checkpoints_.size() : all_tokens);
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
    Prefixes prefixes;
    Prefixes checkpoints;
    Prefixes in_window;
    const auto ask = [&](NamespaceId ns, std::span<const Token> tokens) {
      const Explanation answer = cache.explain({ns, tokens});
      const auto hashes = prefix_hashes(ns, tokens);
      prefixes.insert(hashes.begin() + 1, hashes.begin() + answer.lookup.matched + 1);
      for (const Depth depth : answer.checkpoints) checkpoints.insert(hashes[depth]);
      for (const DepthRange range : answer.window)
        in_window.insert(hashes.begin() + range.from + 1, hashes.begin() + range.to + 1);
      return answer.lookup.matched;
    };
    std::erase_if(paths_, [&](const Path& path) { return ask(path.ns, path.tokens) == 0; });
    for (const auto& sequence : running) ask(sequence.ns, sequence.lease.tokens());
    const auto within = [](const auto& found, const auto& known) {
      return std::all_of(found.begin(), found.end(), [&](auto h) { return known.contains(h); });
    };
    if (!within(prefixes, prefixes_)) return "it has tokens that nobody published";
    if (!within(checkpoints, checkpoints_)) return "it has checkpoints that nobody stored";
    if (!within(in_window, maybe_in_window_)) return "it has window pages that nobody published";
    const CacheStats stats = cache.stats();
    // With its tokens a prefix goes, but others on its path may keep the page.
    std::erase_if(in_window_, [&](auto h) { return !prefixes.contains(h); });
    if (stats.evicted_window_pages == lost_ && !within(in_window_, in_window))
      return "it lost window pages and does not say so";
    if (prefixes.size() != stats.cached_tokens)
      return "it counts " + std::to_string(stats.cached_tokens) + " tokens and finds " +
             std::to_string(prefixes.size());
    if (checkpoints.size() != stats.checkpoints)
      return "it counts " + std::to_string(stats.checkpoints) + " checkpoints and finds " +
             std::to_string(checkpoints.size());
    prefixes_ = std::move(prefixes);
    checkpoints_ = std::move(checkpoints);
    in_window_ = in_window;
    maybe_in_window_ = std::move(in_window);
    lost_ = stats.evicted_window_pages;
    return std::nullopt;
  }

 private:
  using Prefixes = std::unordered_set<std::uint64_t>;

  // Whether there is a checkpoint at that depth, and all pages that hold a token of its window.
  bool restorable(const std::vector<std::uint64_t>& hashes, Depth depth,
                  const Prefixes& in_window) const {
    if (states_ && !checkpoints_.contains(hashes[depth])) return false;
    for (Depth token = std::max(0, depth - window_); token < depth; ++token) {
      const Depth page_end = (token / page_size_ + 1) * page_size_;
      if (!in_window.contains(hashes[std::min(page_end, depth)])) return false;
    }
    return true;
  }

  struct Path {
    NamespaceId ns;
    std::vector<Token> tokens;
  };
  const bool states_;
  const Depth window_;
  const Depth page_size_;
  Prefixes prefixes_;
  Prefixes checkpoints_;
  // Prefixes that end in a window page which is there if none was lost, and those of which it may
  // be.
  Prefixes in_window_;
  Prefixes maybe_in_window_;
  std::uint64_t lost_ = 0;  // window pages, at the last refresh
  std::vector<Path> paths_;
};

}  // namespace stemma
