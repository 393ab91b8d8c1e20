#include "replay/print.h"

#include <cstdarg>
#include <cstdio>

namespace stemma::replay {

void print(std::string& text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text += line;
}

}  // namespace stemma::replay
