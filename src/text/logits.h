#pragma once
// Plain functions over one row of logits. NaNs count as -infinity everywhere.

#include <cstddef>
#include <span>
#include <vector>

#include "core/ids.h"
#include "text/sampler.h"

namespace stemma {

// The lowest index of the largest value; 0 if no value is above -infinity. O(n), vectorised.
Token argmax(std::span<const float> logits);

// ln(sum of exp(logits)), in double around the maximum. -infinity if no value is above it. O(n).
double log_sum_exp(std::span<const float> logits);

// ln(softmax) of one value, given log_sum_exp of its row. Of a row with +infinity in it: 0 there, -infinity elsewhere.
float logprob(float logit, double log_sum);

// The `count` largest values (fewer if there are fewer) as log-probabilities, in falling order, lower tokens first
// among equals. O(n log count).
std::vector<TokenLogprob> best_logprobs(std::span<const float> logits, std::size_t count, double log_sum);

}  // namespace stemma
