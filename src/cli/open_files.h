#pragma once
// How many files, and so connections, the system lets this process have open.

#include <cstdint>

namespace stemma {

// What the process has open beside its clients' connections, with room to spare.
inline constexpr std::uint64_t kOwnOpenFiles = 64;

// Raises the limit as far as the process may by itself (the soft limit to the hard one). The limit then; the largest
// number there is if there is none.
std::uint64_t raise_open_file_limit();

}  // namespace stemma
