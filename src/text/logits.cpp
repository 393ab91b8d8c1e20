#include "text/logits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace stemma {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Independent lanes let the compiler use vector compares; a NaN never compares greater and so never enters.
float maximum(std::span<const float> values) {
  constexpr std::size_t lanes = 16;
  std::array<float, lanes> best;
  best.fill(kMinusInfinity);
  const std::size_t body = values.size() / lanes * lanes;
  for (std::size_t i = 0; i < body; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      best[lane] = values[i + lane] > best[lane] ? values[i + lane] : best[lane];
  float result = kMinusInfinity;
  for (const float value : best) result = std::max(result, value);
  for (std::size_t i = body; i < values.size(); ++i) result = values[i] > result ? values[i] : result;
  return result;
}

}  // namespace

Token argmax(std::span<const float> logits) {
  const float best = maximum(logits);
  if (best == kMinusInfinity) return 0;
  return static_cast<Token>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

double log_sum_exp(std::span<const float> logits) {
  const double best = maximum(logits);
  if (std::isinf(best)) return best;
  double sum = 0;
  for (const float logit : logits)
    if (!std::isnan(logit)) sum += std::exp(logit - best);
  return best + std::log(sum);
}

float logprob(float logit, double log_sum) {
  if (std::isnan(logit)) return kMinusInfinity;
  if (std::isinf(log_sum)) return logit > 0 && std::isinf(logit) ? 0 : kMinusInfinity;
  return static_cast<float>(logit - log_sum);
}

std::vector<TokenLogprob> best_logprobs(std::span<const float> logits, std::size_t count, double log_sum) {
  const auto value = [&](Token token) {
    const float logit = logits[static_cast<std::size_t>(token)];
    return std::isnan(logit) ? kMinusInfinity : logit;
  };
  const auto better = [&](Token a, Token b) { return value(a) != value(b) ? value(a) > value(b) : a < b; };

  // A heap of the best so far with the worst of them on top.
  count = std::min(count, logits.size());
  std::vector<Token> best;
  best.reserve(count + 1);
  for (std::size_t i = 0; i < logits.size() && count > 0; ++i) {
    const auto token = static_cast<Token>(i);
    if (best.size() == count && !better(token, best.front())) continue;
    best.push_back(token);
    std::push_heap(best.begin(), best.end(), better);
    if (best.size() <= count) continue;
    std::pop_heap(best.begin(), best.end(), better);
    best.pop_back();
  }
  std::sort_heap(best.begin(), best.end(), better);

  std::vector<TokenLogprob> result;
  result.reserve(best.size());
  for (const Token token : best) result.push_back({token, logprob(value(token), log_sum)});
  return result;
}

}  // namespace stemma
