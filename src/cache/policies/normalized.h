#pragma once
// The score of Marconi (arXiv 2411.19379, section 4) and SegLen: entries go in
// order of
//
//     recency_weight * norm(1 / (now - last_used)) + efficiency_weight *
//     norm(efficiency)
//
// where norm() maps the least and greatest value among the present candidates
// to 0 and 1. All scores change with time and with every candidate, so nothing
// is kept sorted by score. Instead candidates lie in classes of nearly equal
// efficiency (1/8 of a power of two), each sorted by last use: the least score
// of a class is at its front or shortly behind it, and a class is left as soon
// as its lower bound exceeds the best score found. The victim is exact.
//
// Costs: O(log entries) a change; a victim O(classes) in the usual case.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "cache/eviction_policy.h"

namespace stemma {

class NormalizedPolicy : public EvictionPolicy {
 public:
  NormalizedPolicy(double recency_weight, double efficiency_weight)
      : recency_weight_(recency_weight), efficiency_weight_(efficiency_weight) {}

  void put(EntryId entry, const EntryInfo& info) override {
    hold(entry);
    // A tail inside a page that stays frees no bytes: there is no efficiency to sort it by.
    if (!candidate(info) || !std::isfinite(efficiency(info))) {
      const Member member{info.last_used, entry.kind, entry.slot, kNoCandidate};
      others_.insert(member);
      by_entry_.emplace(key(entry), member);
      return;
    }
    const double efficiency = this->efficiency(info);
    const Member member{info.last_used, entry.kind, entry.slot, efficiency};
    classes_[class_of(efficiency)].insert(member);
    efficiencies_.insert(efficiency);
    by_entry_.emplace(key(entry), member);
  }
  void used(EntryId entry, const EntryInfo& info) override {
    if (by_entry_.contains(key(entry))) put(entry, info);
  }
  void hold(EntryId entry) override {
    const auto found = by_entry_.find(key(entry));
    if (found == by_entry_.end()) return;
    if (found->second.efficiency == kNoCandidate) {
      others_.erase(found->second);
      by_entry_.erase(found);
      return;
    }
    const auto of_class = classes_.find(class_of(found->second.efficiency));
    of_class->second.erase(found->second);
    if (of_class->second.empty()) classes_.erase(of_class);
    efficiencies_.erase(efficiencies_.find(found->second.efficiency));
    by_entry_.erase(found);
  }
  void erase(EntryId entry, bool /*evicted*/) override { hold(entry); }
  void advance(std::uint64_t clock, double /*now*/) override { clock_ = clock; }

  std::optional<EntryId> victim(unsigned kinds) override;

  // Of std::set's and std::unordered_map's nodes, without malloc's own.
  std::size_t metadata_bytes() const override {
    constexpr std::size_t kTreeLinks = 32;
    constexpr std::size_t kEntry = (kTreeLinks + sizeof(Member)) + (kTreeLinks + sizeof(double)) +
                                   (sizeof(void*) + sizeof(std::uint64_t) + sizeof(Member));
    return by_entry_.size() * kEntry + by_entry_.bucket_count() * sizeof(void*);
  }

 protected:
  // Whether the policy considers an entry before others are gone, and its
  // second term (>= 0) before normalization.
  virtual bool candidate(const EntryInfo& info) const = 0;
  virtual double efficiency(const EntryInfo& info) const = 0;

 private:
  struct Member {
    std::uint64_t last_used;
    EntryKind kind;
    std::uint32_t slot;
    double efficiency;
    bool operator<(const Member& other) const {
      return std::tie(last_used, kind, slot) < std::tie(other.last_used, other.kind, other.slot);
    }
  };
  static std::uint64_t key(EntryId entry) { return std::uint64_t{entry.kind} << 32 | entry.slot; }
  static int class_of(double efficiency) {
    return efficiency > 0 ? static_cast<int>(std::floor(std::log2(efficiency) * 8)) : -100000;
  }
  double recency(std::uint64_t last_used) const {
    return 1 / (static_cast<double>(clock_ - std::min(clock_, last_used)) + 1);
  }

  static constexpr double kNoCandidate = -1;

  const double recency_weight_;
  const double efficiency_weight_;
  std::uint64_t clock_ = 0;
  std::map<int, std::set<Member>> classes_;
  std::set<Member> others_;  // no candidates: they go when there are no others
  std::multiset<double> efficiencies_;
  std::unordered_map<std::uint64_t, Member> by_entry_;
};

}  // namespace stemma
