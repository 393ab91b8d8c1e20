#pragma once
// A policy around another that checks both sides of eviction_policy.h: what the cache tells it, and
// what the other answers.

#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <unordered_set>
#include <utility>

#include "cache/eviction_policy.h"
#include "gtest/gtest.h"

namespace stemma {

class CheckedPolicy final : public EvictionPolicy {
 public:
  explicit CheckedPolicy(std::unique_ptr<EvictionPolicy> policy) : policy_(std::move(policy)) {}

  void put(EntryId entry, const EntryInfo& info) override {
    check(info);
    known_[entry.kind].insert(entry.slot);
    policy_->put(entry, info);
  }
  void used(EntryId entry, const EntryInfo& info) override {
    check(info);
    policy_->used(entry, info);
  }
  void hold(EntryId entry) override {
    known_[entry.kind].erase(entry.slot);
    policy_->hold(entry);
  }
  void erase(EntryId entry, bool evicted) override {
    known_[entry.kind].erase(entry.slot);
    policy_->erase(entry, evicted);
  }
  std::optional<EntryId> victim(unsigned kinds) override {
    const std::optional<EntryId> victim = policy_->victim(kinds);
    bool any = false;
    for (unsigned kind = 0; kind < kEntryKinds; ++kind)
      any |= (kinds >> kind & 1) != 0 && !known_[kind].empty();
    EXPECT_EQ(victim.has_value(), any) << "a victim is named if there is an entry";
    if (victim) {
      EXPECT_NE(kinds >> victim->kind & 1, 0u) << "of the kinds asked for";
      EXPECT_TRUE(known_[victim->kind].contains(victim->slot)) << "that is not in use";
    }
    return victim;
  }
  bool worth(const EntryInfo& candidate, EntryId victim) override {
    check(candidate);
    EXPECT_TRUE(known_[victim.kind].contains(victim.slot));
    return policy_->worth(candidate, victim);
  }
  void advance(std::uint64_t clock, double now_seconds) override {
    EXPECT_GE(clock, clock_);
    clock_ = clock;
    policy_->advance(clock, now_seconds);
  }

  // Entries of a kind that it may name.
  std::size_t known(EntryKind kind) const { return known_[kind].size(); }

 private:
  void check(const EntryInfo& info) {
    EXPECT_GT(info.depth, 0);
    EXPECT_GT(info.bytes, 0);
    EXPECT_GE(info.cost, 0);
    EXPECT_TRUE(std::isfinite(info.cost));
    EXPECT_LE(info.priority, 100);
  }

  const std::unique_ptr<EvictionPolicy> policy_;
  std::array<std::unordered_set<std::uint32_t>, kEntryKinds> known_;
  std::uint64_t clock_ = 0;
};

}  // namespace stemma
