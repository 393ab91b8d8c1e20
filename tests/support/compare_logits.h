#pragma once
// How far two computations of the same logits are apart.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace stemma::test {

struct LogitDifference {
  double nmse = 0;         // sum (a - b)^2 / sum b^2 over all rows
  double trimmed_nmse = 0; // the same without the 1 % of rows with the largest errors
  double median_nmse = 0;  // of the rows' own: not ruled by a few rows with large logits
  std::size_t rows = 0;
  std::size_t top1_differs = 0;  // rows whose largest logit is another token's
};

inline std::ptrdiff_t top1(std::span<const float> row) { return std::ranges::max_element(row) - row.begin(); }

// Row by row; `b` is the reference. Throws std::invalid_argument if they have different shapes or no rows.
inline LogitDifference compare_logits(std::span<const std::vector<float>> a, std::span<const std::vector<float>> b) {
  if (a.size() != b.size() || a.empty()) throw std::invalid_argument("different numbers of rows");
  LogitDifference difference{.rows = a.size()};
  double all_error = 0;
  double all_power = 0;
  std::vector<double> row_nmse;
  std::vector<std::pair<double, double>> rows;  // error and power
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) throw std::invalid_argument("different vocabularies");
    double error = 0;
    double power = 0;
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      const double delta = static_cast<double>(a[i][j]) - b[i][j];
      error += delta * delta;
      power += static_cast<double>(b[i][j]) * b[i][j];
    }
    all_error += error;
    all_power += power;
    row_nmse.push_back(error / power);
    rows.emplace_back(error, power);
    if (top1(a[i]) != top1(b[i])) ++difference.top1_differs;
  }
  difference.nmse = all_error / all_power;
  std::ranges::sort(rows, std::greater<>{});
  for (std::size_t i = 0; i < rows.size() / 100; ++i) {
    all_error -= rows[i].first;
    all_power -= rows[i].second;
  }
  difference.trimmed_nmse = all_error / all_power;
  std::ranges::nth_element(row_nmse, row_nmse.begin() + std::ssize(row_nmse) / 2);
  difference.median_nmse = row_nmse[row_nmse.size() / 2];
  return difference;
}

}  // namespace stemma::test
