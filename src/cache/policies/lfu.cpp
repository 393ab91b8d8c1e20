// Least frequently used first; of equally many uses, the least recent.

#include <algorithm>

#include "cache/policies/policies.h"
#include "cache/policies/ranked_policy.h"

namespace stemma {

namespace {

class LfuPolicy final : public RankedPolicy {
  // Uses in the upper 24 bits, the clock in the lower 40: at 10,000 uses a second, three years.
  std::uint64_t rank(const EntryInfo& info) const override {
    constexpr std::uint64_t kClock = (std::uint64_t{1} << 40) - 1;
    return std::uint64_t{std::min(info.uses, 0xFFFFFFu)} << 40 | std::min(info.last_used, kClock);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lfu_policy() { return std::make_unique<LfuPolicy>(); }

}  // namespace stemma
