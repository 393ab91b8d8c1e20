#pragma once
// What the server itself counts; the engine's and the cache's counters come from EngineStats.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace stemma {

class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Seconds, in buckets that double from 1 ms to 131 s.
class SecondsHistogram {
 public:
  static constexpr std::size_t kBuckets = 18;

  static double upper_bound(std::size_t bucket);
  void observe(double seconds);

  // Observations in (previous bound, upper_bound(bucket)]; bucket kBuckets has no upper bound.
  std::uint64_t count(std::size_t bucket) const { return counts_[bucket].value(); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::array<Counter, kBuckets + 1> counts_;
  std::atomic<double> sum_{0};
};

// Thread-safe.
class ServerMetrics {
 public:
  Counter slow_readers;    // cut off because they did not read
  Counter gone_clients;    // left while their request was under way
  Counter stopped;         // choices ended by a stop string
  SecondsHistogram first_token;  // request parsed to its first token, a choice
  SecondsHistogram whole;        // request parsed to its last token, an API call

  // `route`: the path of a known route, or empty.
  void count_reply(const std::string& route, int status);
  std::map<std::pair<std::string, int>, std::uint64_t> replies() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> replies_;
};

}  // namespace stemma
