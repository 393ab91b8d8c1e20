#pragma once
// What a user can do about a prompt that reuses less than hoped: one sentence a reason. Answers,
// the log and docs/cache.md say the same.

#include <string_view>

#include "cache/cache.h"

namespace stemma {

std::string_view advice_on(ReuseLimit limit);
std::string_view advice_on(WaitReason reason);

}  // namespace stemma
