// Segmented LRU: entries that were used twice or more are protected and go only
// when no others are left; inside a segment the least recently used goes first.
// The threshold is SGLang's.

#include "cache/policies/policies.h"
#include "cache/policies/ranked_policy.h"

namespace stemma {

namespace {

class SlruPolicy final : public RankedPolicy {
  std::uint64_t rank(const EntryInfo& info) const override {
    constexpr std::uint32_t kProtectedUses = 2;
    constexpr std::uint64_t kSegment = std::uint64_t{1} << 63;
    return (info.uses >= kProtectedUses ? kSegment : 0) + info.last_used;
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_slru_policy() { return std::make_unique<SlruPolicy>(); }

}  // namespace stemma
