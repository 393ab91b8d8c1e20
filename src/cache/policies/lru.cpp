// Least recently used first.

#include "cache/policies/policies.h"
#include "cache/policies/ranked_policy.h"

namespace stemma {

namespace {

class LruPolicy final : public RankedPolicy {
  std::uint64_t rank(const EntryInfo& info) const override { return info.last_used; }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru_policy() { return std::make_unique<LruPolicy>(); }

}  // namespace stemma
