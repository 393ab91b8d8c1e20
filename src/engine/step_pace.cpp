#include "engine/step_pace.h"

#include <algorithm>

namespace stemma {

void StepPace::took(std::size_t generating, std::size_t prompt_tokens, double seconds) {
  if (prompt_tokens == 0) {
    plain_step_.add(seconds);
    return;
  }
  // A step that only fills prompts reads the weights for them alone: its whole time is theirs.
  const double others = generating > 0 ? plain_step_.value().value_or(0) : 0;
  prompt_token_.add(std::max(0.0, seconds - others) / static_cast<double>(prompt_tokens));
}

std::size_t StepPace::joinable() const {
  const std::optional<double>& plain = plain_step_.value();
  const std::optional<double>& token = prompt_token_.value();
  if (!plain || !token) return kUnknown;
  const double most = (kStretch - 1) * *plain;
  constexpr double kMany = 1 << 20;
  return static_cast<std::size_t>(std::clamp(*token * kMany > most ? most / *token : kMany, 1.0, kMany));
}

}  // namespace stemma
