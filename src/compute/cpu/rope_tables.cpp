#include "compute/cpu/rope_tables.h"

#include <cmath>

namespace stemma {
namespace {

bool same_angles(const RopeParams& a, const RopeParams& b) {
  return a.n_rot == b.n_rot && a.freq_base == b.freq_base && a.freq_scale == b.freq_scale &&
         a.factors.has_value() == b.factors.has_value() && (!a.factors || a.factors->id == b.factors->id);
}

}  // namespace

void RopeTables::begin(std::span<const Depth> depths) {
  depths_ = depths;
  used_ = 0;
}

const RopeTable& RopeTables::find(const RopeParams& params, std::span<const float> factors) {
  for (std::size_t i = 0; i < used_; ++i) {
    if (same_angles(entries_[i].params, params)) return entries_[i].table;
  }
  if (used_ == entries_.size()) entries_.emplace_back();
  Entry& entry = entries_[used_++];
  entry.params = params;
  RopeTable& table = entry.table;
  table.pairs = static_cast<std::size_t>(params.n_rot) / 2;
  table.cosines.resize(depths_.size() * table.pairs);
  table.sines.resize(depths_.size() * table.pairs);
  for (std::size_t i = 0; i < table.pairs; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / params.n_rot;
    double frequency = std::pow(static_cast<double>(params.freq_base), exponent) * params.freq_scale;
    if (!factors.empty()) frequency /= factors[i];
    for (std::size_t row = 0; row < depths_.size(); ++row) {
      const double angle = depths_[row] * frequency;
      table.cosines[row * table.pairs + i] = static_cast<float>(std::cos(angle));
      table.sines[row * table.pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace stemma
