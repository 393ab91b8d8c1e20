#pragma once
// How likely, and how soon, an entry of a class is reused, given how long ago
// it was last used: learned from what happens, with no parameter taken from any
// workload.
//
// For each class it counts at which ages entries were reused and at which they
// were evicted. The value of keeping an entry of age a for one more request is
// its hit density (Beckmann, Chen and Cidon, "LHD: Improving Cache Hit Rate by
// Maximizing Hit Density", NSDI 2018):
//
//     density(a) = expected reuses after a / expected time in the cache after a
//                = sum of reuses at ages >= a / sum over events at ages x >= a
//                of (x - a)
//
// Ages are in requests, in bins of a quarter of a power of two. Counts fade, so
// that the model follows the load. Where a class has few events, a weak prior
// stands in: a reuse is as likely as not within as much time again as has
// passed.
//
// Threads: none. Costs: O(1) an event, amortized; O(1) a density.

#include <array>
#include <cstdint>
#include <vector>

namespace stemma {

class ReuseModel {
 public:
  static constexpr int kBins = 4 * 28;

  explicit ReuseModel(int classes) : classes_(static_cast<std::size_t>(classes)) {}

  void reused(int of_class, std::uint64_t age, double weight = 1) {
    count(classes_[of_class].reused[bin(age)], weight);
  }
  void evicted(int of_class, std::uint64_t age) { count(classes_[of_class].evicted[bin(age)], 1); }

  // Expected reuses per request of an entry of this class and age.
  double density(int of_class, std::uint64_t age) const {
    return classes_[of_class].density[bin(age)];
  }

 private:
  struct Class {
    Class();
    std::array<double, kBins> reused{};
    std::array<double, kBins> evicted{};
    std::array<double, kBins> density;
  };

  static int bin(std::uint64_t age);
  static double start(int bin);
  void count(double& counter, double weight);
  void learn();

  std::vector<Class> classes_;
  std::uint64_t events_ = 0;
  std::uint64_t learn_at_ = 64;
};

}  // namespace stemma
