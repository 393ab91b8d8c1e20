// Least frequently used first; of equally many uses, the least recent.

#include <algorithm>

#include "cache/policies/policies.h"
#include "cache/policies/ranked_policy.h"

namespace stemma {

namespace {

class LfuPolicy final : public RankedPolicy {
  // Uses in the upper, the clock in the lower bits of what a double holds
  // exactly: 2^12 uses, 2^40 of the clock's values (at 10,000 a second, three
  // years).
  double rank(const EntryInfo& info) const override {
    constexpr double kClock = 1099511627776.0;
    return std::min<double>(info.uses, 4095) * kClock +
           std::min(static_cast<double>(info.last_used), kClock - 1);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lfu_policy() { return std::make_unique<LfuPolicy>(); }

}  // namespace stemma
