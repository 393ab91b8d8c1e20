#pragma once
// The cache itself, driven the way the engine drives it.

#include "replay/cache_model.h"

namespace stemma::replay {

// Errors: those of Cache::create.
Result<std::unique_ptr<CacheModel>> make_real_cache(const CacheConfig& config);

}  // namespace stemma::replay
