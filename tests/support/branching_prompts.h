#pragma once
// Prompts that branch off each other at awkward depths: what a prefix cache has to get right.

#include <random>
#include <vector>

#include "core/ids.h"

namespace stemma::test {

// A trunk of `length` random tokens below `vocabulary` and, for each depth, a prompt that follows the trunk for so many tokens and
// then goes on by itself for `tail` tokens. The trunk comes first.
inline std::vector<std::vector<Token>> branching_prompts(int length, const std::vector<int>& depths, int tail,
                                                         Token vocabulary, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<Token> token(0, vocabulary - 1);
  std::vector<std::vector<Token>> prompts(1);
  for (int i = 0; i < length; ++i) prompts[0].push_back(token(random));
  for (const int depth : depths) {
    std::vector<Token> prompt(prompts[0].begin(), prompts[0].begin() + depth);
    for (int i = 0; i < tail; ++i) prompt.push_back(token(random));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace stemma::test
