#pragma once
// How likely, and how soon, an entry is reused, given what it is and how long ago it was last used:
// learned from what happens, with no parameter taken from any workload.
//
// It estimates the hazard of reuse h(a), reuses per request of an entry of age a, as a life table
// does (Kaplan and Meier 1958): what leaves unused is censored, so it does not matter when the
// cache had to give entries up; and so is what is still there, which a census counts before each
// learning (without it, whatever is seldom reused and seldom given up would look as good as what is
// reused). Classes form a tree: an entry belongs to a group (say, the last
// states of paths), and inside it to ever finer classes by its features. Each group has a curve of
// its own over ages; each finer class multiplies its parent's curve. All are drawn to their parents
// by the weight of many events, so a class with little data is its parent.
//
// What to keep entries for is the Gittins index of the hazard,
//
//     index(a) = max over t of  P(reuse before a + t) / E[time until reuse or a + t],
//
// the best rate of reuse that an entry of age a can give for its place (h(a) itself where h falls).
//
// Ages are in requests, in bins of half a power of two. Counts fade, so that the model follows the
// load.
//
// Threads: none. Costs: O(1) an event, amortized; O(1) an index.

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace stemma {

class ReuseModel {
 public:
  static constexpr int kBins = 2 * 24;

  // `groups` groups; inside each, features with so many values each, the first the coarsest.
  // `census` is called before each learning, once in some hundreds of events, and calls present().
  ReuseModel(int groups, std::vector<int> features, std::function<void()> census = {});

  // Classes are numbered (group * f0 + v0) * f1 + v1 ... for feature values v.
  int classes() const { return static_cast<int>(leaves_.size()); }

  void reused(int of_class, std::uint64_t age);
  void left(int of_class, std::uint64_t age);
  // In a census: an entry of this age is there. `weight`: how many entries it stands for.
  void present(int of_class, std::uint64_t age, double weight);

  // Expected reuses per request, at best.
  double index(int of_class, std::uint64_t age) {
    Leaf& leaf = leaves_[of_class];
    if (leaf.learned != learned_) update(leaf, of_class);
    return leaf.index[bin(age)];
  }

 private:
  using Bins = std::array<double, kBins>;
  struct Leaf {
    Bins reused{};
    Bins left{};
    Bins present{};  // at the last census
    Bins exposed{};  // as of the last learning
    Bins index;
    double factor = 1;  // of the group's curve
    bool seen = false;
    std::uint32_t learned = 0;  // when `index` was computed
  };

  static int bin(std::uint64_t age);
  void count(int of_class, double& counter);
  void learn();
  void update(Leaf& leaf, int of_class);

  const int groups_;
  const std::vector<int> features_;
  const std::function<void()> census_;
  std::vector<Leaf> leaves_;
  std::vector<Bins> curves_;  // by group
  std::uint32_t learned_ = 1;
  std::uint64_t events_ = 0;
  std::uint64_t learn_at_ = 64;
};

}  // namespace stemma
