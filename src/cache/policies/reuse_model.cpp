// Bins, fading and the densities.

#include "cache/policies/reuse_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stemma {

namespace {

// The prior: so many reuses in a time that makes reuse within the present age
// as likely as not.
constexpr double kPriorReuses = 2;
constexpr double kYoungest = 8;  // requests: below this, age says nothing
constexpr std::uint64_t kLearnEvery = 4096;
constexpr double kFade = 0.93;  // at each learning: half-life of about 40,000 events

}  // namespace

// Bin 4 o + q holds ages from 2^o (1 + q / 4) - 1 on.
int ReuseModel::bin(std::uint64_t age) {
  const std::uint64_t x = std::min<std::uint64_t>(age + 1, (std::uint64_t{1} << 28) - 1);
  const int octave = std::bit_width(x) - 1;
  const int quarter = octave >= 2 ? static_cast<int>((x >> (octave - 2)) & 3)
                                  : static_cast<int>((x << (2 - octave)) & 3);
  return 4 * octave + quarter;
}

double ReuseModel::start(int bin) { return std::ldexp(1 + bin % 4 / 4.0, bin / 4) - 1; }

ReuseModel::Class::Class() {
  for (int b = 0; b < kBins; ++b) density[b] = 1 / (2 * (start(b) + kYoungest));
}

void ReuseModel::count(double& counter, double weight) {
  counter += weight;
  if (++events_ < learn_at_) return;
  learn();
  learn_at_ = events_ + std::min(events_, kLearnEvery);
}

void ReuseModel::learn() {
  const bool fades = events_ >= kLearnEvery;
  for (Class& c : classes_) {
    double reuses = 0;  // at ages of bin b and above
    double events = 0;
    double time = 0;  // beyond the start of bin b
    for (int b = kBins - 1; b >= 0; --b) {
      const double here = c.reused[b] + c.evicted[b];
      const double width = start(b + 1) - start(b);
      time += events * width + here * width / 2;
      events += here;
      reuses += c.reused[b];
      const double prior_time = kPriorReuses * 2 * (start(b) + kYoungest);
      c.density[b] = (reuses + kPriorReuses) / (time + prior_time);
      if (fades) {
        c.reused[b] *= kFade;
        c.evicted[b] *= kFade;
      }
    }
  }
}

}  // namespace stemma
