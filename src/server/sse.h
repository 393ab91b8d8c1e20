#pragma once
// Server-sent events, as OpenAI's streams use them: data lines only.

#include <string>
#include <string_view>

namespace stemma {

inline constexpr std::string_view kSseContentType = "text/event-stream";

// One event. `data` has no line breaks.
inline std::string sse_event(std::string_view data) {
  return std::string("data: ").append(data).append("\n\n");
}

}  // namespace stemma
