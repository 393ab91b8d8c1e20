// The search for the least score.

#include "cache/policies/normalized.h"

#include <algorithm>
#include <limits>

namespace stemma {

std::optional<EntryId> NormalizedPolicy::victim(unsigned kinds) {
  double oldest = 1;
  double newest = 0;
  for (const auto& [number, members] : classes_) {
    oldest = std::min(oldest, recency(members.begin()->last_used));
    newest = std::max(newest, recency(members.rbegin()->last_used));
  }
  const auto norm = [](double value, double least, double greatest) {
    return greatest > least ? (value - least) / (greatest - least) : 0;
  };

  std::optional<EntryId> lowest;
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [number, members] : classes_) {
    // No member of the class has a lower efficiency than the class.
    const double bound = number == -100000 ? 0 : std::exp2(number / 8.0);
    const double floor = efficiency_weight_ * norm(std::max(bound, *efficiencies_.begin()),
                                                   *efficiencies_.begin(), *efficiencies_.rbegin());
    for (const Member& member : members) {
      const double by_age = recency_weight_ * norm(recency(member.last_used), oldest, newest);
      if (by_age + floor >= best) break;
      if ((kinds >> member.kind & 1) == 0) continue;
      const double score =
          by_age + efficiency_weight_ *
                       norm(member.efficiency, *efficiencies_.begin(), *efficiencies_.rbegin());
      if (score < best) {
        best = score;
        lowest = EntryId{member.kind, member.slot};
      }
    }
  }
  if (lowest) return lowest;
  for (const Member& member : others_) {
    if (kinds >> member.kind & 1) return EntryId{member.kind, member.slot};
  }
  return std::nullopt;
}

}  // namespace stemma
