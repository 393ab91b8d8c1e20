#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "llama.h"

#include "text/llama_library.h"
#include "text/logits.h"
#include "text/penalty_window.h"

namespace stemma {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Below this, logits / temperature can overflow, and the draw is the maximum anyway.
constexpr float kGreedyBelow = 1e-5f;

struct ChainDeleter {
  void operator()(llama_sampler* chain) const { llama_sampler_free(chain); }
};
using Chain = std::unique_ptr<llama_sampler, ChainDeleter>;

// libllama draws from a 32-bit seed, and 0xffffffff means "a random one" to it. The finalizer of splitmix64 spreads
// neighbouring seeds.
std::uint32_t draw_seed(std::uint64_t seed) {
  seed += 0x9e3779b97f4a7c15;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
  const auto mixed = static_cast<std::uint32_t>((seed ^ (seed >> 31)) >> 32);
  return mixed == LLAMA_DEFAULT_SEED ? 0 : mixed;
}

Chain make_chain(const SamplingParams& params) {
  llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
  chain_params.no_perf = true;
  Chain chain(llama_sampler_chain_init(chain_params));
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(chain.get(), sampler); };
  if (params.top_k > 0) add(llama_sampler_init_top_k(params.top_k));
  if (params.top_p < 1) add(llama_sampler_init_top_p(params.top_p, 1));
  if (params.min_p > 0) add(llama_sampler_init_min_p(params.min_p, 1));
  add(llama_sampler_init_temp(params.temperature));
  add(llama_sampler_init_dist(draw_seed(params.seed)));
  return chain;
}

template <class Value>
Status check(std::string_view name, Value value, bool good, std::string_view expected) {
  if (good) return {};
  return fail(ErrorCode::sampling_bad_parameter,
              {{"name", std::string(name)}, {"value", fmt::format("{}", value)}, {"expected", std::string(expected)}});
}

// Comparisons with NaN are false, so every condition is written as what must hold.
Status check_params(const SamplingParams& p, std::size_t vocabulary) {
  const auto size = static_cast<std::int64_t>(vocabulary);
  STEMMA_CHECK(check("temperature", p.temperature, p.temperature >= 0 && std::isfinite(p.temperature), "at least 0"));
  STEMMA_CHECK(check("top_k", p.top_k, p.top_k >= -1, "at least 1, or 0 for no limit"));
  STEMMA_CHECK(check("top_p", p.top_p, p.top_p >= 0 && p.top_p <= 1, "between 0 and 1"));
  STEMMA_CHECK(check("min_p", p.min_p, p.min_p >= 0 && p.min_p <= 1, "between 0 and 1"));
  STEMMA_CHECK(check("repeat_penalty", p.repeat_penalty, p.repeat_penalty > 0 && std::isfinite(p.repeat_penalty),
                     "above 0"));
  STEMMA_CHECK(check("frequency_penalty", p.frequency_penalty, std::abs(p.frequency_penalty) <= 2, "between -2 and 2"));
  STEMMA_CHECK(check("presence_penalty", p.presence_penalty, std::abs(p.presence_penalty) <= 2, "between -2 and 2"));
  STEMMA_CHECK(check("repeat_last_n", p.repeat_last_n, p.repeat_last_n >= -1, "at least 0, or -1 for everything"));
  STEMMA_CHECK(check("logprobs", p.logprobs, p.logprobs >= -1 && p.logprobs <= size,
                     fmt::format("between 0 and the vocabulary's size, {}", size)));
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= size)
      return fail(ErrorCode::sampling_bad_token,
                  {{"token", std::to_string(token)}, {"size", std::to_string(vocabulary)}});
    STEMMA_CHECK(check(fmt::format("logit_bias of token {}", token), bias,
                       bias < std::numeric_limits<float>::infinity(), "a number, or -infinity to ban the token"));
  }
  return {};
}

}  // namespace

struct Sampler::Impl {
  SamplingParams params;
  bool greedy;
  bool penalties;                              // any of the three is on
  std::vector<std::pair<Token, float>> bias;   // logit_bias and the tokens that ignore_eos bans
  PenaltyWindow window;
  Chain chain;                                 // null if greedy

  // Applies bias and penalties. `at(token)` gives a reference to the token's logit. O(bias + window).
  template <class At>
  void adjust(At at) const {
    for (const auto& [token, value] : bias) at(token) += value;
    if (!penalties) return;
    for (const auto& [token, count] : window.counts()) {
      float& logit = at(token);
      logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
      logit -= static_cast<float>(count) * params.frequency_penalty + params.presence_penalty;
    }
  }

  Token choose(std::span<const float> logits);
  Token choose_greedily(std::span<const float> logits) const;
  Token draw(std::span<const float> logits);
};

Token Sampler::Impl::choose(std::span<const float> logits) {
  return greedy ? choose_greedily(logits) : draw(logits);
}

Token Sampler::Impl::choose_greedily(std::span<const float> logits) const {
  if (bias.empty() && (!penalties || window.counts().empty())) return argmax(logits);
  // Scratch only: nothing is kept between calls, and one buffer serves all samplers of a thread.
  thread_local std::vector<float> adjusted;
  adjusted.assign(logits.begin(), logits.end());
  adjust([&](Token token) -> float& { return adjusted[static_cast<std::size_t>(token)]; });
  return argmax(adjusted);
}

Token Sampler::Impl::draw(std::span<const float> logits) {
  thread_local std::vector<llama_token_data> candidates;  // scratch, as above
  candidates.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) candidates[i] = {static_cast<Token>(i), logits[i], 0};
  adjust([&](Token token) -> float& { return candidates[static_cast<std::size_t>(token)].logit; });

  // What cannot be chosen goes. NaNs compare as not above -infinity.
  std::erase_if(candidates, [](const llama_token_data& c) { return !(c.logit > kMinusInfinity); });
  if (candidates.empty()) return 0;

  // The maximum moves to 0, so that dividing by a small temperature cannot overflow. softmax does not see it.
  const auto best = std::max_element(candidates.begin(), candidates.end(),
                                     [](const auto& a, const auto& b) { return a.logit < b.logit; });
  if (std::isinf(best->logit)) return best->id;
  for (const float shift = best->logit; llama_token_data& candidate : candidates) candidate.logit -= shift;

  llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
  llama_sampler_apply(chain.get(), &array);
  return array.data[array.selected].id;
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::create(const SamplingParams& params, const Tokenizer& tokenizer) {
  const std::size_t size = tokenizer.size();
  STEMMA_CHECK(check_params(params, size));
  start_llama_library();

  std::vector<std::pair<Token, float>> bias = params.logit_bias;
  if (params.ignore_eos)
    for (const Token token : tokenizer.end_of_generation()) bias.emplace_back(token, kMinusInfinity);

  const bool greedy = params.temperature < kGreedyBelow;
  const bool penalties = params.repeat_last_n != 0 && (params.repeat_penalty != 1 || params.frequency_penalty != 0 ||
                                                       params.presence_penalty != 0);
  return std::unique_ptr<Sampler>(new Sampler(std::make_unique<Impl>(
      Impl{params, greedy, penalties, std::move(bias), PenaltyWindow(penalties ? params.repeat_last_n : 0),
           greedy ? nullptr : make_chain(params)})));
}

void Sampler::accept_prompt(std::span<const Token> prompt) {
  for (const Token token : prompt) impl_->window.push(token);
}

Sampled Sampler::sample(std::span<const float> logits) {
  Sampled sampled{impl_->choose(logits), 0, {}};
  impl_->window.push(sampled.token);
  if (impl_->params.logprobs >= 0) {
    const double log_sum = log_sum_exp(logits);
    sampled.logprob = logprob(logits[static_cast<std::size_t>(sampled.token)], log_sum);
    sampled.top = best_logprobs(logits, static_cast<std::size_t>(impl_->params.logprobs), log_sum);
  }
  return sampled;
}

}  // namespace stemma
