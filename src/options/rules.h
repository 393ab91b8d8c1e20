#pragma once
// How options are chosen that nobody asked for: pure functions of the facts and of the options above them in the
// table. Each says why.

#include <optional>

#include "options/facts.h"
#include "options/options.h"

namespace stemma {

struct Decision;

// The model's file name without ".gguf".
std::optional<Decision> choose_alias(const Options& so_far, const Facts& facts);

// One for each core.
std::optional<Decision> choose_threads(const Options& so_far, const Facts& facts);

// A quarter of the memory that is free, between 64 MiB and 64 GiB.
std::optional<Decision> choose_cache_memory(const Options& so_far, const Facts& facts);

// The model's, or the longest of which the cache memory holds one sequence; nothing before the model is known.
// O(log context).
std::optional<Decision> choose_context_length(const Options& so_far, const Facts& facts);

}  // namespace stemma
