// placeholder
#include "cache/policies/policies.h"
#include "cache/policies/ranked_policy.h"
namespace stemma {
namespace {
class ValuePolicy final : public RankedPolicy {
  double rank(const EntryInfo &info) const override {
    return static_cast<double>(info.last_used);
  }
};
} // namespace
std::unique_ptr<EvictionPolicy> make_value_policy() {
  return std::make_unique<ValuePolicy>();
}
} // namespace stemma
