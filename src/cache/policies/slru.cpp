// Segmented LRU: entries that were used twice or more are protected and go only
// when no others are left; inside a segment the least recently used goes first.
// The threshold is SGLang's.

#include <algorithm>

#include "cache/policies/policies.h"
#include "cache/policies/ranked_policy.h"

namespace stemma {

namespace {

class SlruPolicy final : public RankedPolicy {
  double rank(const EntryInfo& info) const override {
    constexpr std::uint32_t kProtectedUses = 2;
    constexpr double kSegment = 4503599627370496.0;  // 2^52: above any clock value
    return (info.uses >= kProtectedUses ? kSegment : 0) + static_cast<double>(info.last_used);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_slru_policy() { return std::make_unique<SlruPolicy>(); }

}  // namespace stemma
