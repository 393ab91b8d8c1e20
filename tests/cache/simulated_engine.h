#pragma once
// An engine and a memory without tensors: the KV at a depth and the state at a depth are hashes of
// the tokens before, copies copy hashes, and every step checks that all it reads is what it should
// be. What a cache bug would corrupt in a model shows up here as a wrong hash.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cache/cache.h"
#include "gtest/gtest.h"

namespace stemma {

// The hash of a namespace and the first `i` tokens is element i.
inline std::vector<std::uint64_t> prefix_hashes(NamespaceId ns, std::span<const Token> tokens) {
  std::vector<std::uint64_t> hashes{0xD1B54A32D192ED03u * (index_of(ns) + 1)};
  for (const Token token : tokens) {
    std::uint64_t h = hashes.back() ^ (static_cast<std::uint64_t>(token) + 0x9E3779B97F4A7C15u);
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    hashes.push_back(h ^ (h >> 27));
  }
  return hashes;
}

class SimulatedEngine {
 public:
  explicit SimulatedEngine(const CacheConfig& config)
      : config_(config),
        kv_(static_cast<std::size_t>(config.page_count) * config.page_size),
        states_(config.row_count) {}

  // One running request.
  struct Sequence {
    NamespaceId ns;
    Lease lease;
    Depth prompt_length;
    bool restored = false;
    std::vector<Depth> written = {};  // stored by steps whose tokens are not published yet
  };

  // Makes the copies of the restore plan and checks that everything reused is right.
  void restore(Sequence& sequence) {
    Lease& lease = sequence.lease;
    const RestorePlan& plan = lease.restore_plan();
    if (const auto row = lease.state_row()) {
      const auto empty = prefix_hashes(sequence.ns, {}).front();
      state(*row) = plan.state_from ? state(*plan.state_from) : empty;
    }
    if (const auto& copy = plan.page_copy) {
      for (int slot = 0; slot < copy->slots; ++slot) kv(copy->to, slot) = kv(copy->from, slot);
    }
    lease.restored();
    sequence.restored = true;
    check(sequence);
  }

  // KV of all depths computed or reused, and the state, hold what the tokens say.
  void check(const Sequence& sequence) const {
    const Lease& lease = sequence.lease;
    const auto hashes = prefix_hashes(sequence.ns, lease.tokens());
    if (config_.page_count > 0) {
      for (Depth depth = 0; depth < std::max(lease.computed(), lease.kv_write_from()); ++depth) {
        if (!sequence.restored &&
            depth >= lease.kv_write_from() / config_.page_size * config_.page_size)
          break;
        ASSERT_EQ(kv_at(lease, depth), hashes[depth + 1]) << "KV at depth " << depth;
      }
    }
    if (const auto row = lease.state_row(); row && sequence.restored) {
      ASSERT_EQ(states_[index_of(*row)], hashes[lease.computed()])
          << "state at depth " << lease.computed();
    }
  }

  // The forward pass from computed() to `to`; returns the depths at which it stores checkpoints.
  // The caller then publishes or advances.
  std::vector<Depth> compute(Sequence& sequence, Depth to) {
    check(sequence);
    Lease& lease = sequence.lease;
    const auto hashes = prefix_hashes(sequence.ns, lease.tokens());
    std::vector<Depth> depths;
    for (const LeaseMark& mark : lease.prepare_marks(to)) {
      EXPECT_GT(mark.depth, depths.empty() ? lease.computed() : depths.back());
      EXPECT_LE(mark.depth, to);
      state(mark.row) = hashes[mark.depth];
      depths.push_back(mark.depth);
    }
    if (const auto row = lease.state_row()) state(*row) = hashes[to];
    if (config_.page_count > 0) {
      for (Depth depth = std::max(lease.computed(), lease.kv_write_from()); depth < to; ++depth) {
        kv(lease.pages()[depth / config_.page_size], depth % config_.page_size) = hashes[depth + 1];
      }
    }
    return depths;
  }

 private:
  std::uint64_t& kv(PageId page, int slot) {
    return kv_[index_of(page) * config_.page_size + slot];
  }
  std::uint64_t& state(RowId row) { return states_[index_of(row)]; }
  std::uint64_t kv_at(const Lease& lease, Depth depth) const {
    const PageId page = lease.pages()[depth / config_.page_size];
    return kv_[index_of(page) * config_.page_size + depth % config_.page_size];
  }

  CacheConfig config_;
  std::vector<std::uint64_t> kv_;
  std::vector<std::uint64_t> states_;
};

}  // namespace stemma
