#include "server/completion_response.h"

#include <chrono>
#include <cstdio>
#include <random>

#include "server/logprobs_json.h"

namespace stemma {

using nlohmann::ordered_json;

namespace {

std::string random_id(const char* prefix) {
  std::random_device device;
  char digits[25];
  std::snprintf(digits, sizeof digits, "%08x%08x%08x", device(), device(), device());
  return std::string(prefix) + digits;
}

std::int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

ordered_json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

// 0 where there is nothing to divide by.
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

ordered_json timings_json(const Timings& t) {
  const auto prompt_n = static_cast<double>(t.prompt_n);
  const auto predicted_n = static_cast<double>(t.predicted_n);
  return {{"cache_n", t.cache_n},
          {"prompt_n", t.prompt_n},
          {"prompt_ms", t.prompt_ms},
          {"prompt_per_token_ms", ratio(t.prompt_ms, prompt_n)},
          {"prompt_per_second", ratio(1e3 * prompt_n, t.prompt_ms)},
          {"predicted_n", t.predicted_n},
          {"predicted_ms", t.predicted_ms},
          {"predicted_per_token_ms", ratio(t.predicted_ms, predicted_n)},
          {"predicted_per_second", ratio(1e3 * predicted_n, t.predicted_ms)}};
}

void add_work(ordered_json& answer, const CompletionResponse::Totals& totals) {
  answer["timings"] = timings_json(totals.timings);
  if (!totals.cache.is_null()) answer["cache"] = totals.cache;
}

}  // namespace

CompletionResponse::CompletionResponse(const Tokenizer& tokenizer, const CompletionRequest& request,
                                       const std::string& model, const std::string& fingerprint)
    : tokenizer_(tokenizer),
      api_(request.api),
      logprobs_(request.logprobs),
      token_ids_(request.return_token_ids),
      include_usage_(request.include_usage),
      id_(random_id(request.api == CompletionApi::chat ? "chatcmpl-" : "cmpl-")),
      created_(unix_time()),
      model_(model),
      fingerprint_("stemma-" + fingerprint.substr(0, 12)),
      offsets_(request.choices.size()),
      begun_(request.choices.size()) {}

ordered_json CompletionResponse::head(const char* object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"system_fingerprint", fingerprint_}};
}

ordered_json CompletionResponse::logprobs(std::size_t choice, std::span<const Sampled> tokens) {
  if (!logprobs_) return nullptr;
  return chat() ? chat_logprobs(tokenizer_, tokens) : text_logprobs(tokenizer_, tokens, offsets_[choice]);
}

void CompletionResponse::add_token_ids(ordered_json& choice, std::span<const Sampled> tokens) const {
  if (!token_ids_) return;
  ordered_json& ids = choice["token_ids"] = ordered_json::array();
  for (const Sampled& sampled : tokens) ids.push_back(sampled.token);
}

ordered_json CompletionResponse::whole(std::span<const Choice> choices, const Totals& totals) {
  ordered_json answer = head(chat() ? "chat.completion" : "text_completion");
  ordered_json& list = answer["choices"] = ordered_json::array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    ordered_json choice = {{"index", i}};
    if (chat()) {
      choice["message"] = {{"role", "assistant"}, {"content", choices[i].text}};
    } else {
      choice["text"] = choices[i].text;
    }
    choice["logprobs"] = logprobs(i, choices[i].tokens);
    choice["finish_reason"] = choices[i].finish_reason;
    add_token_ids(choice, choices[i].tokens);
    list.push_back(std::move(choice));
  }
  answer["usage"] = usage_json(totals.usage);
  add_work(answer, totals);
  return answer;
}

ordered_json CompletionResponse::chunk_head() const {
  ordered_json answer = head(chat() ? "chat.completion.chunk" : "text_completion");
  if (include_usage_) answer["usage"] = nullptr;  // as OpenAI does in all but the last chunk
  return answer;
}

ordered_json CompletionResponse::piece(const Progress& progress) {
  const std::span<const Sampled> tokens =
      progress.token ? std::span<const Sampled>(&*progress.token, 1) : std::span<const Sampled>();
  ordered_json choice = {{"index", progress.choice}};
  if (chat()) {
    ordered_json& delta = choice["delta"] = ordered_json::object();
    if (!begun_[progress.choice]) delta["role"] = "assistant";
    begun_[progress.choice] = true;
    delta["content"] = progress.text;
  } else {
    choice["text"] = progress.text;
  }
  choice["logprobs"] = tokens.empty() ? ordered_json() : logprobs(progress.choice, tokens);
  choice["finish_reason"] = nullptr;
  add_token_ids(choice, tokens);
  ordered_json answer = chunk_head();
  answer["choices"] = ordered_json::array({std::move(choice)});
  return answer;
}

ordered_json CompletionResponse::end(std::size_t index, const char* finish_reason) {
  ordered_json choice = {{"index", index}};
  if (chat()) {
    ordered_json& delta = choice["delta"] = ordered_json::object();
    if (!begun_[index]) delta = {{"role", "assistant"}, {"content", ""}};
    begun_[index] = true;
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason;
  ordered_json answer = chunk_head();
  answer["choices"] = ordered_json::array({std::move(choice)});
  return answer;
}

std::vector<ordered_json> CompletionResponse::last(ordered_json end_of_last_choice,
                                                   const Totals& totals) const {
  if (!include_usage_) {  // clients that did not ask for it expect a choice in every chunk
    add_work(end_of_last_choice, totals);
    return {std::move(end_of_last_choice)};
  }
  ordered_json end = chunk_head();
  end["choices"] = ordered_json::array();
  end["usage"] = usage_json(totals.usage);
  add_work(end, totals);
  return {std::move(end_of_last_choice), std::move(end)};
}

}  // namespace stemma
