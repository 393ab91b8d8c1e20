#include "server/server_metrics.h"

#include <cmath>

namespace stemma {

double SecondsHistogram::upper_bound(std::size_t bucket) {
  return std::ldexp(0.001, static_cast<int>(bucket));
}

void SecondsHistogram::observe(double seconds) {
  std::size_t bucket = 0;
  while (bucket < kBuckets && seconds > upper_bound(bucket)) ++bucket;
  counts_[bucket].add();
  sum_.fetch_add(seconds, std::memory_order_relaxed);
}

void ServerMetrics::count_reply(const std::string& route, int status) {
  std::lock_guard lock(mutex_);
  ++replies_[{route, status}];
}

std::map<std::pair<std::string, int>, std::uint64_t> ServerMetrics::replies() const {
  std::lock_guard lock(mutex_);
  return replies_;
}

}  // namespace stemma
