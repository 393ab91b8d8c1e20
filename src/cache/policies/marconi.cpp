// Marconi as published (arXiv 2411.19379): recency plus alpha times FLOPs saved
// per byte. Its candidates have at most one child: a fork's checkpoint never
// goes. FLOPs and bytes are those of what would really be lost and freed (the
// published code's are not).

#include "cache/policies/normalized.h"
#include "cache/policies/policies.h"

namespace stemma {

namespace {

class MarconiPolicy final : public NormalizedPolicy {
 public:
  explicit MarconiPolicy(double alpha) : NormalizedPolicy(1, alpha) {}

 private:
  bool candidate(const EntryInfo& info) const override { return info.place != EntryPlace::fork; }
  double efficiency(const EntryInfo& info) const override { return info.cost / info.bytes; }
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_marconi_policy(double alpha) {
  return std::make_unique<MarconiPolicy>(alpha);
}

}  // namespace stemma
