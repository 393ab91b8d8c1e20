#pragma once
// What a replay drives: the real cache, or a model of another one. All numbers are in units
// (replay/units.h).
//
// One thread drives a model and its requests; requests end before their model.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "cache/cache.h"
#include "replay/units.h"

namespace stemma::replay {

// One request that was admitted. Dropping it without finish() gives up what it did not publish.
class RunningRequest {
 public:
  virtual ~RunningRequest() = default;
  // Units of the prompt that it need not compute.
  virtual Depth hit() const = 0;
  // The prompt is computed up to `to`: whatever is stored of it is stored now.
  virtual void prefilled(Depth to) = 0;
  // The prompt is computed; takes the room that the answer needs. False if there is none to be had.
  virtual bool start_answer() = 0;
  // The path is computed to its end; or, before start_answer(), the prompt is as far as it is: what
  // is stored at the end of a sequence is stored now.
  virtual void finish() = 0;
};

// Counters since the start, and what is there now.
struct CacheModelStats {
  std::uint64_t restored_states = 0;
  std::uint64_t copied_pages = 0;
  std::uint64_t stored_states = 0;  // checkpoints written
  std::uint64_t skipped_marks = 0;
  std::uint64_t evicted_pages = 0;
  std::uint64_t evicted_states = 0;
  std::array<std::uint64_t, kReuseLimits> limits{};  // why requests reused no more, by ReuseLimit
  std::uint64_t cached_units = 0;
  std::uint64_t nodes = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t metadata_bytes = 0;  // of the real cache, without the units themselves
};

class CacheModel {
 public:
  virtual ~CacheModel() = default;
  // Admits a request, or says why it waits. `demand` stays valid until the request ends.
  virtual std::variant<std::unique_ptr<RunningRequest>, WaitReason> acquire(
      const Demand& demand) = 0;
  // Whether a path of so many units can ever be served.
  virtual bool fits(Depth units) const = 0;
  virtual CacheModelStats stats() const = 0;
};

}  // namespace stemma::replay
