#pragma once
// An engine and a memory without tensors: the KV at a depth and the state at a depth are hashes of
// the tokens before, copies copy hashes, and every step checks that all it reads is what it should
// be. What a cache bug would corrupt in a model shows up here as a wrong hash.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "gtest/gtest.h"

namespace stemma {

// Of a namespace and no tokens.
inline std::uint64_t empty_hash(NamespaceId ns) { return 0xD1B54A32D192ED03u * (index_of(ns) + 1); }
// Of what `before` is the hash of, and one more token.
inline std::uint64_t next_hash(std::uint64_t before, Token token) {
  std::uint64_t h = before ^ (static_cast<std::uint64_t>(token) + 0x9E3779B97F4A7C15u);
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
  return h ^ (h >> 27);
}
// The hash of a namespace and the first `i` tokens is element i.
inline std::vector<std::uint64_t> prefix_hashes(NamespaceId ns, std::span<const Token> tokens) {
  std::vector<std::uint64_t> hashes{empty_hash(ns)};
  hashes.reserve(tokens.size() + 1);
  for (const Token token : tokens) hashes.push_back(next_hash(hashes.back(), token));
  return hashes;
}

class SimulatedEngine {
 public:
  explicit SimulatedEngine(const CacheConfig& config)
      : config_(config),
        kv_(static_cast<std::size_t>(config.page_count) * config.page_size),
        window_kv_(static_cast<std::size_t>(config.window_page_count) * config.page_size),
        states_(config.row_count) {}

  // One running request.
  struct Sequence {
    NamespaceId ns;
    Lease lease;
    Depth prompt_length;
    bool restored = false;
    std::vector<LeaseMark> prepared = {};  // of the step that was computed or put off last
    std::vector<LeaseMark> written = {};   // by steps whose tokens are not published yet
    std::vector<std::uint64_t> hashes =
        {};  // prefix_hashes() of the lease's tokens, once asked for
  };

  static const std::vector<std::uint64_t>& hashes(Sequence& sequence) {
    const std::span<const Token> tokens = sequence.lease.tokens();
    if (sequence.hashes.empty()) sequence.hashes = prefix_hashes(sequence.ns, tokens);
    while (sequence.hashes.size() <= tokens.size())
      sequence.hashes.push_back(
          next_hash(sequence.hashes.back(), tokens[sequence.hashes.size() - 1]));
    return sequence.hashes;
  }

  // The memory of these slots went back to the system: what is in them is lost.
  void release(const Cache::Cooled& cooled) {
    for (const PageId page : cooled.pages) {
      for (int slot = 0; slot < config_.page_size; ++slot) kv(page, slot) = kLost;
    }
    for (const WindowPageId page : cooled.window_pages) {
      for (int slot = 0; slot < config_.page_size; ++slot) window_kv(page, slot) = kLost;
    }
    for (const RowId row : cooled.rows) state(row) = kLost;
  }

  // Makes the copies of the restore plan and checks that everything reused is right.
  void restore(Sequence& sequence) {
    Lease& lease = sequence.lease;
    const RestorePlan& plan = lease.restore_plan();
    if (const auto row = lease.state_row())
      state(*row) = plan.state_from ? state(*plan.state_from) : empty_hash(sequence.ns);
    if (const auto& copy = plan.page_copy) {
      for (int slot = 0; slot < copy->slots; ++slot) kv(copy->to, slot) = kv(copy->from, slot);
    }
    if (const auto& copy = plan.window_copy) {
      for (int slot = 0; slot < copy->slots; ++slot)
        window_kv(copy->to, slot) = window_kv(copy->from, slot);
    }
    lease.restored();
    sequence.restored = true;
    check(sequence);
  }

  // KV of all depths computed or reused, that of the window, and the state hold what the tokens
  // say.
  void check(Sequence& sequence) const {
    const Lease& lease = sequence.lease;
    const std::vector<std::uint64_t>& expected = hashes(sequence);
    if (config_.page_count > 0) {
      Depth to = std::max(lease.computed(), lease.kv_write_from());
      if (!sequence.restored) to = std::min(to, lease.kv_write_from() / size() * size());
      for (Depth depth = 0; depth < to; ++depth) {
        if (kv_at(lease, depth) != expected[depth + 1])
          FAIL() << "the KV at depth " << depth << " is not that of the tokens";
      }
    }
    if (config_.window > 0) {
      const Depth computed = lease.computed();
      const Depth to = sequence.restored ? computed : computed / size() * size();
      for (Depth depth = std::max(0, computed - config_.window); depth < to; ++depth) {
        if (window_at(lease, depth) != expected[depth + 1])
          FAIL() << "the window's KV at depth " << depth << " is not that of the tokens";
      }
    }
    if (const auto row = lease.state_row(); row && sequence.restored) {
      ASSERT_EQ(states_[index_of(*row)], expected[lease.computed()])
          << "the state at depth " << lease.computed() << " is not that of the tokens";
    }
  }

  // The forward pass from computed() to `to`; returns the depths at which it stores checkpoints.
  // The caller then publishes or advances.
  std::vector<Depth> compute(Sequence& sequence, Depth to) {
    prepare(sequence, to);
    return compute_prepared(sequence, to);
  }

  // The two halves of compute(): between them the memory of cooled slots is given back.
  void prepare(Sequence& sequence, Depth to) {
    check(sequence);
    const std::span<const LeaseMark> marks = sequence.lease.prepare_marks(to);
    sequence.prepared.assign(marks.begin(), marks.end());
  }
  std::vector<Depth> compute_prepared(Sequence& sequence, Depth to) {
    Lease& lease = sequence.lease;
    const std::vector<std::uint64_t>& values = hashes(sequence);
    std::vector<Depth> depths;
    for (const LeaseMark& mark : sequence.prepared) {
      EXPECT_GT(mark.depth, depths.empty() ? lease.computed() : depths.back());
      EXPECT_LE(mark.depth, to);
      state(mark.row) = values[mark.depth];
      depths.push_back(mark.depth);
    }
    if (const auto row = lease.state_row()) state(*row) = values[to];
    if (config_.page_count > 0) {
      for (Depth depth = std::max(lease.computed(), lease.kv_write_from()); depth < to; ++depth)
        kv(lease.pages()[depth / size()], depth % size()) = values[depth + 1];
    }
    if (config_.window > 0) {
      const WindowPages pages = lease.window_pages();
      for (Depth depth = lease.computed(); depth < to; ++depth)
        window_kv(pages.ids[depth / size() - pages.first], depth % size()) = values[depth + 1];
    }
    return depths;
  }

 private:
  static constexpr std::uint64_t kLost = 0xDEADDEADDEADDEAD;

  int size() const { return config_.page_size; }
  std::uint64_t& kv(PageId page, int slot) {
    return kv_[std::size_t{index_of(page)} * size() + slot];
  }
  std::uint64_t& window_kv(WindowPageId page, int slot) {
    return window_kv_[std::size_t{index_of(page)} * size() + slot];
  }
  std::uint64_t window_at(const Lease& lease, Depth depth) const {
    const WindowPages pages = lease.window_pages();
    const WindowPageId page = pages.ids[static_cast<std::size_t>(depth / size()) - pages.first];
    return window_kv_[std::size_t{index_of(page)} * size() + depth % size()];
  }
  std::uint64_t& state(RowId row) { return states_[index_of(row)]; }
  std::uint64_t kv_at(const Lease& lease, Depth depth) const {
    return kv_[std::size_t{index_of(lease.pages()[depth / size()])} * size() + depth % size()];
  }

  const CacheConfig config_;
  std::vector<std::uint64_t> kv_;
  std::vector<std::uint64_t> window_kv_;
  std::vector<std::uint64_t> states_;
};

}  // namespace stemma
