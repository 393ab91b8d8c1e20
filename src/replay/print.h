#pragma once
// printf at the end of a string, for tables.

#include <string>

namespace stemma::replay {

// Lines of up to 500 characters; what is longer is cut off.
[[gnu::format(printf, 2, 3)]] void print(std::string& text, const char* format, ...);

}  // namespace stemma::replay
