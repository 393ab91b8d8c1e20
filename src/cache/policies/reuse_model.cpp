// Bins, fading, hazards and indices.

#include "cache/policies/reuse_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stemma {

namespace {

constexpr double kYoung = 8;  // requests: below this, age says little
// What a parent weighs against the reuses of its own: many, since reuses come in bursts that depend
// on each other, and a class that was given up early has seen few late ages. A curve, with its many
// bins, needs more than a class, which has one number.
constexpr double kCurveEvents = 100;
constexpr double kClassEvents = 50;
constexpr std::uint64_t kLearnEvery = 2048;
constexpr double kFade = 0.95;

// Bin 2 o + h holds ages from 2^o (1 + h / 2) - 1 on.
double start(int bin) { return std::ldexp(1 + bin % 2 / 2.0, bin / 2) - 1; }
double middle(int bin) { return (start(bin) + start(bin + 1)) / 2; }
double width(int bin) { return start(bin + 1) - start(bin); }

using Bins = std::array<double, ReuseModel::kBins>;

// Before anything is known: a reuse within as much time again as has passed is as likely as not.
Bins prior() {
  Bins hazard;
  for (int b = 0; b < ReuseModel::kBins; ++b) hazard[b] = 0.5 / (middle(b) + kYoung);
  return hazard;
}

Bins gittins(const Bins& hazard, double factor) {
  Bins index;
  for (int b = 0; b < ReuseModel::kBins; ++b) {
    double alive = 1;
    double time = 0;
    double best = 0;
    for (int t = b; t < ReuseModel::kBins; ++t) {
      const double h = hazard[t] * factor;
      const double survives = std::exp(-h * (t == b ? width(b) / 2 : width(t)));
      time += alive * (1 - survives) / h;
      alive *= survives;
      best = std::max(best, (1 - alive) / time);
    }
    index[b] = best;
  }
  return index;
}

// The curve that the counts say, drawn to `parent`: first as a whole, then bin by bin.
Bins curve_of(const Bins& reused, const Bins& exposed, const Bins& parent) {
  double reuses = kCurveEvents;
  double expected = kCurveEvents;
  for (int b = 0; b < ReuseModel::kBins; ++b) {
    reuses += reused[b];
    expected += exposed[b] * parent[b];
  }
  Bins hazard;
  for (int b = 0; b < ReuseModel::kBins; ++b) {
    const double drawn = parent[b] * reuses / expected;
    hazard[b] = (reused[b] + kCurveEvents) / (exposed[b] + kCurveEvents / drawn);
  }
  return hazard;
}

// Requests that entries spent in each bin, from the bins at which they ended or are.
Bins exposure_of(const Bins& reused, const Bins& left, const Bins& present) {
  Bins exposure{};
  double beyond = 0;  // entries that ended in a later bin
  for (int b = ReuseModel::kBins - 1; b >= 0; --b) {
    const double here = reused[b] + left[b] + present[b];
    exposure[b] = (beyond + here / 2) * width(b);
    beyond += here;
  }
  return exposure;
}

int product(const std::vector<int>& factors) {
  int result = 1;
  for (const int factor : factors) result *= factor;
  return result;
}

}  // namespace

ReuseModel::ReuseModel(int groups, std::vector<int> features, std::function<void()> census)
    : groups_(groups),
      features_(std::move(features)),
      census_(std::move(census)),
      leaves_(groups * product(features_)) {
  curves_.assign(groups_, prior());
}

int ReuseModel::bin(std::uint64_t age) {
  const std::uint64_t x = std::min<std::uint64_t>(age + 1, (std::uint64_t{1} << 24) - 1);
  const int octave = std::bit_width(x) - 1;
  return 2 * octave + (octave > 0 ? static_cast<int>(x >> (octave - 1) & 1) : 0);
}

void ReuseModel::reused(int of_class, std::uint64_t age) {
  count(of_class, leaves_[of_class].reused[bin(age)]);
}
void ReuseModel::left(int of_class, std::uint64_t age) {
  count(of_class, leaves_[of_class].left[bin(age)]);
}
void ReuseModel::present(int of_class, std::uint64_t age, double weight) {
  leaves_[of_class].present[bin(age)] += weight;
  leaves_[of_class].seen = true;
}

void ReuseModel::count(int of_class, double& counter) {
  counter += 1;
  leaves_[of_class].seen = true;
  if (++events_ < learn_at_) return;
  for (Leaf& leaf : leaves_) leaf.present = {};
  if (census_) census_();
  learn();
  learn_at_ = events_ + std::min(events_, kLearnEvery);
}

void ReuseModel::learn() {
  const auto per_group = static_cast<int>(leaves_.size()) / groups_;
  std::vector<Bins> reused(groups_, Bins{});
  std::vector<Bins> exposed(groups_, Bins{});
  Bins all_reused{};
  Bins all_exposed{};
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& leaf = leaves_[i];
    if (!leaf.seen) continue;
    leaf.exposed = exposure_of(leaf.reused, leaf.left, leaf.present);
    for (int b = 0; b < kBins; ++b) {
      reused[i / per_group][b] += leaf.reused[b];
      exposed[i / per_group][b] += leaf.exposed[b];
      all_reused[b] += leaf.reused[b];
      all_exposed[b] += leaf.exposed[b];
    }
  }
  const Bins common = curve_of(all_reused, all_exposed, prior());

  for (int group = 0; group < groups_; ++group) {
    const Bins& curve = curves_[group] = curve_of(reused[group], exposed[group], common);
    std::vector<double> factors{1};  // of the classes of one level
    for (std::size_t level = 1; level <= features_.size(); ++level) {
      int count = 1;
      for (std::size_t f = 0; f < level; ++f) count *= features_[f];
      const int leaves = per_group / count;
      std::vector<double> finer(count);
      for (int c = 0; c < count; ++c) {
        const double parent = factors[c / features_[level - 1]];
        double reuses = kClassEvents;
        double expected = kClassEvents;
        for (int l = 0; l < leaves; ++l) {
          const Leaf& leaf = leaves_[group * per_group + c * leaves + l];
          if (!leaf.seen) continue;
          for (int b = 0; b < kBins; ++b) {
            reuses += leaf.reused[b];
            expected += leaf.exposed[b] * curve[b] * parent;
          }
        }
        finer[c] = parent * reuses / expected;
      }
      factors = std::move(finer);
    }
    for (int i = 0; i < per_group; ++i) leaves_[group * per_group + i].factor = factors[i];
  }
  ++learned_;
  for (Leaf& leaf : leaves_) {
    for (int b = 0; b < kBins; ++b) {
      leaf.reused[b] *= kFade;
      leaf.left[b] *= kFade;
    }
  }
}

void ReuseModel::update(Leaf& leaf, int of_class) {
  leaf.index = gittins(curves_[of_class / (leaves_.size() / groups_)], leaf.factor);
  leaf.learned = learned_;
}

}  // namespace stemma
