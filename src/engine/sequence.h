#pragma once
// One request inside the engine, from the queue to its end. Plain data: the scheduler and the engine thread move it along.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "engine/engine.h"

namespace stemma {

using Clock = std::chrono::steady_clock;

// The cache's clock: seconds since the machine started, or so.
inline double cache_seconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

struct Sequence {
  RequestId id;                        // also its order of arrival
  std::string namespace_key;           // names `ns`, which the engine thread looks up
  NamespaceId ns;
  std::vector<Token> tokens;           // prompt and output so far; kept by the lease instead while there is one
  std::vector<Depth> message_ends;
  std::uint8_t priority;
  double retention_seconds;
  int max_tokens;
  std::unique_ptr<Sampler> sampler;
  std::shared_ptr<RequestSink> sink;

  std::optional<Lease> lease;          // while running
  bool started = false;                // it has run; a preemption may have sent it back to the queue
  GenerationResult result;             // filled in as it goes
  Clock::time_point submitted;
  Clock::time_point first_step;
  Clock::time_point first_token;

  // Tokens that a step must still compute before the next can be sampled. Only while running.
  Depth remaining() const {
    return static_cast<Depth>(lease->tokens().size()) - lease->computed();
  }
  // Whether the next step samples for it from one token, as all steps of generation do.
  bool decoding() const { return remaining() == 1; }
};

}  // namespace stemma
