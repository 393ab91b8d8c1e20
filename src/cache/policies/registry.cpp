// Policies by name.

#include <charconv>
#include <string>

#include "cache/policies/policies.h"

namespace stemma {

Result<std::unique_ptr<EvictionPolicy>> make_eviction_policy(std::string_view name) {
  if (name == "value") return make_value_policy();
  if (name == "lru") return make_lru_policy();
  if (name == "lfu") return make_lfu_policy();
  if (name == "slru") return make_slru_policy();
  if (name == "priority") return make_priority_policy();
  if (name == "marconi") return make_marconi_policy(1);
  if (name == "seglen") return make_seglen_policy();
  constexpr std::string_view kMarconi = "marconi:";
  if (name.starts_with(kMarconi)) {
    const std::string_view number = name.substr(kMarconi.size());
    double alpha = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), alpha);
    if (error == std::errc() && end == number.data() + number.size() && alpha >= 0 && alpha < 1e6)
      return make_marconi_policy(alpha);
  }
  return fail(ErrorCode::cache_unknown_policy, {{"name", std::string(name)},
                                                {"known",
                                                 "value, lru, lfu, slru, priority, marconi (or "
                                                 "marconi:ALPHA, ALPHA >= 0), seglen"}});
}

}  // namespace stemma
