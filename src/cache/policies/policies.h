#pragma once
// The policies that make_eviction_policy() knows, one file each.

#include <memory>

#include "cache/eviction_policy.h"

namespace stemma {

std::unique_ptr<EvictionPolicy> make_lru_policy();
std::unique_ptr<EvictionPolicy> make_lfu_policy();
std::unique_ptr<EvictionPolicy> make_slru_policy();
std::unique_ptr<EvictionPolicy> make_priority_policy();
std::unique_ptr<EvictionPolicy> make_marconi_policy(double alpha);
std::unique_ptr<EvictionPolicy> make_seglen_policy();
std::unique_ptr<EvictionPolicy> make_value_policy();

}  // namespace stemma
