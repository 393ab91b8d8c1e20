// SegLen: the length that would have to be replayed from the nearest shallower
// state, mixed with recency. The weight is its authors'.

#include "cache/policies/normalized.h"
#include "cache/policies/policies.h"

namespace stemma {

namespace {

constexpr double kLengthWeight = 0.85;

class SegLenPolicy final : public NormalizedPolicy {
 public:
  SegLenPolicy() : NormalizedPolicy(1 - kLengthWeight, kLengthWeight) {}

 private:
  bool candidate(const EntryInfo&) const override { return true; }
  double efficiency(const EntryInfo& info) const override { return info.cost; }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_seglen_policy() { return std::make_unique<SegLenPolicy>(); }

}  // namespace stemma
