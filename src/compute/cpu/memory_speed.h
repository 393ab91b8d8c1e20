#pragma once
// How fast this machine's threads read memory: the bound of generation, which reads all weights for
// each token.

#include <cstddef>
#include <vector>

#include "core/result.h"

namespace stemma {

// Reads `bytes` bytes from one end to the other with `threads` threads, `passes` times after one
// that does not count; bytes a second of each pass. Few bytes stay in the processor's caches, as
// weights of that size would. Errors: `out_of_memory`.
Result<std::vector<double>> measure_memory_reads(std::size_t bytes, int threads, int passes);

}  // namespace stemma
