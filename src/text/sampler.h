#pragma once
// From logits to a token. One Sampler per running request; its state (random numbers, penalty window) is all that a
// request carries besides its tokens, so a preempted request goes on with the same numbers.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "text/tokenizer.h"

namespace stemma {

// OpenAI's and llama-server's names and defaults. Applied in llama-server's order: bias, penalties, top_k, top_p, min_p,
// temperature, draw.
struct SamplingParams {
  float temperature = 1.0f;        // >= 0; 0 (and all below 1e-5) = greedy
  int top_k = 0;                   // >= -1; 0 and -1 = off
  float top_p = 1.0f;              // 0 to 1; 1 = off
  float min_p = 0.0f;              // 0 to 1; 0 = off
  float repeat_penalty = 1.0f;     // > 0; 1 = off
  float frequency_penalty = 0.0f;  // -2 to 2
  float presence_penalty = 0.0f;   // -2 to 2
  int repeat_last_n = 64;          // window of the three penalties, prompt included; 0 = off, -1 = all
  std::uint64_t seed = 0;          // requests with different seeds draw different numbers
  std::vector<std::pair<Token, float>> logit_bias;  // added; -infinity bans; entries of one token add up
  bool ignore_eos = false;         // never samples an end-of-generation token
  int logprobs = -1;               // -1 = none; n >= 0: of the chosen token and of the n most likely
};

struct TokenLogprob {
  Token token;
  float logprob;
};

struct Sampled {
  Token token;
  // Natural logarithms of softmax(logits) as the model gave them, before any sampling parameter (NaNs count as
  // -infinity); the chosen token's, then the n best in falling order (ties by lower token). Empty unless asked for.
  float logprob = 0;
  std::vector<TokenLogprob> top;
};

class Sampler {
 public:
  // Errors: `sampling_bad_parameter` (range), `sampling_bad_token` (logit_bias outside the vocabulary).
  static Result<std::unique_ptr<Sampler>> create(const SamplingParams& params, const Tokenizer& tokenizer);
  ~Sampler();

  // Tells the penalties about the prompt. O(prompt).
  void accept_prompt(std::span<const Token> prompt);

  // Chooses a token and remembers it. Greedy takes the largest logit, the lowest token among equals. Deterministic:
  // same parameters, seed and logits give the same tokens. `logits` has the vocabulary's size; NaNs are never chosen.
  // Where every token is NaN, -infinity or banned, the answer is token 0. O(vocabulary); greedy without penalties
  // reads the logits and copies nothing.
  Sampled sample(std::span<const float> logits);

 private:
  struct Impl;
  explicit Sampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stemma
