#pragma once
// How many tokens of prompts may join a step in which others generate, so that their next tokens do not come much later than
// without: learned from how long steps took.
//
// A step without prompts takes so long; a prompt's token adds so much. Both are running means over the latest steps, so
// they follow the machine's load and the depth of the contexts. What is computed does not depend on it: chunks change no bit.
//
// Threads: the engine's. Costs: O(1).

#include <cstddef>
#include <optional>

namespace stemma {

class StepPace {
 public:
  // A step with prompts is to take at most so many times as long as one without.
  static constexpr double kStretch = 2.0;

  // What a step had and how long it took.
  void took(std::size_t generating, std::size_t prompt_tokens, double seconds);

  // Prompt tokens that may join, at least 1; kUnknown until both kinds of step were seen.
  std::size_t joinable() const;
  static constexpr std::size_t kUnknown = 16;

 private:
  // A mean that forgets: each new value weighs a quarter.
  class Mean {
   public:
    void add(double value) { mean_ = mean_ ? *mean_ + (value - *mean_) / 4 : value; }
    const std::optional<double>& value() const { return mean_; }

   private:
    std::optional<double> mean_;
  };

  Mean plain_step_;     // seconds of a step that only generates
  Mean prompt_token_;   // seconds that a prompt's token adds
};

}  // namespace stemma
