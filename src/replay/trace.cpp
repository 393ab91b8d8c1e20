#include "replay/trace.h"

namespace stemma::replay {

Trace every_kth_session(const Trace& trace, std::size_t count) {
  if (count == 0 || trace.sessions.size() <= count) return trace;
  const std::size_t step = (trace.sessions.size() + count - 1) / count;
  Trace chosen = trace;
  chosen.sessions.clear();
  for (std::size_t i = 0; i < trace.sessions.size(); i += step) {
    chosen.sessions.push_back(trace.sessions[i]);
  }
  return chosen;
}

}  // namespace stemma::replay
