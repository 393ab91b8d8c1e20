#include "server/request_fields.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace stemma {

using nlohmann::json;

namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr std::int64_t kMinSeed = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxChoices = 128;           // OpenAI's
constexpr std::size_t kMaxStops = 16;
constexpr int kMostPriority = 100;  // TensorRT-LLM's

// Names that cannot change an answer here: bookkeeping of OpenAI's platform, and settings of features that are off
// unless their switch (among the unsupported) is set.
constexpr std::string_view kHarmless[] = {
    "user", "model", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "parallel_tool_calls", "n_cache_reuse", "dry_base", "dry_allowed_length",
    "dry_penalty_last_n", "dry_sequence_breakers", "xtc_threshold", "mirostat_tau", "mirostat_eta",
    "dynatemp_exponent"};

constexpr UnsupportedField kUnsupported[] = {
    {"add_generation_prompt", "[true]"},
    {"audio", "[]"},
    {"cache_prompt", "[true]"},
    {"continue_final_message", "[false]"},
    {"dry_multiplier", "[0]"},
    {"dynatemp_range", "[0]"},
    {"echo", "[false]"},
    {"function_call", R"(["none", "auto"])"},
    {"functions", "[[]]"},
    {"grammar", R"([""])"},
    {"guided_choice", "[[]]"},
    {"guided_grammar", R"([""])"},
    {"guided_json", "[]"},
    {"guided_regex", R"([""])"},
    {"id_slot", "[-1]"},
    {"images", "[[]]"},
    {"json_schema", "[{}]"},
    {"length_penalty", "[1]"},
    {"logits_processors", "[[]]"},
    {"lora", "[[]]"},
    {"min_tokens", "[0]"},
    {"mirostat", "[0]"},
    {"modalities", R"([["text"]])"},
    {"n_keep", "[0]"},
    {"n_probs", "[0]"},
    {"post_sampling_probs", "[false]"},
    {"prediction", "[]"},
    {"regex", R"([""])"},
    {"response_format", R"([{"type": "text"}])"},
    {"return_progress", "[false]"},
    {"skip_special_tokens", "[true]"},
    {"stop_token_ids", "[[]]"},
    {"suffix", R"([""])"},
    {"timings_per_token", "[false]"},
    {"tool_choice", R"(["none", "auto"])"},
    {"tools", "[[]]"},
    {"top_n_sigma", "[-1]"},
    {"typical_p", "[1]"},
    {"use_beam_search", "[false]"},
    {"web_search_options", "[]"},
    {"xtc_probability", "[0]"},
};

void read_sampling(FieldReader& fields, SamplingParams& sampling) {
  fields.number("temperature", sampling.temperature);
  fields.integer("top_k", -1, kMaxInt, sampling.top_k);
  fields.number("top_p", sampling.top_p);
  fields.number("min_p", sampling.min_p);
  fields.number("repetition_penalty", sampling.repeat_penalty);  // vLLM's and SGLang's name
  fields.number("repeat_penalty", sampling.repeat_penalty);      // llama-server's
  fields.number("frequency_penalty", sampling.frequency_penalty);
  fields.number("presence_penalty", sampling.presence_penalty);
  fields.integer("repeat_last_n", -1, kMaxInt, sampling.repeat_last_n);
  fields.boolean("ignore_eos", sampling.ignore_eos);

  const json* bias = fields.find("logit_bias");
  if (!bias) return;
  if (!bias->is_object()) return fields.reject("logit_bias", "must be an object of token ids and numbers");
  for (const auto& [key, value] : bias->items()) {
    Token token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || !value.is_number() ||
        !(std::abs(value.get<double>()) <= std::numeric_limits<float>::max())) {
      return fields.reject("logit_bias", "must be an object of token ids and numbers");
    }
    sampling.logit_bias.emplace_back(token, value.get<float>());
  }
}

void read_stop(FieldReader& fields, std::vector<std::string>& stop) {
  const json* field = fields.find("stop");
  if (!field) return;
  const json list = field->is_array() ? *field : json::array({*field});
  if (list.size() > kMaxStops) {
    return fields.reject("stop", "may have at most " + std::to_string(kMaxStops) + " strings");
  }
  for (const json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      return fields.reject("stop", "must be a non-empty string or an array of them");
    }
    stop.push_back(text.get<std::string>());
  }
}

void read_streaming(FieldReader& fields, CommonFields& common) {
  fields.boolean("stream", common.stream);
  const json* options = fields.find("stream_options");
  if (!options) return;
  if (!options->is_object()) return fields.reject("stream_options", "must be an object");
  FieldReader inner(*options);
  inner.boolean("include_usage", common.include_usage);
  inner.find("include_obfuscation");  // padding against traffic analysis by length; none is added
  if (const auto error = inner.finish({}, {})) fields.reject(*error);
}

}  // namespace

CommonFields read_common_fields(FieldReader& fields) {
  CommonFields common;
  read_sampling(fields, common.sampling);
  fields.integer("seed", kMinSeed, kMaxSeed, common.seed);
  if (common.seed == -1) common.seed.reset();  // llama-server's "random"
  // The later names win; OpenAI's newest is the last.
  for (const std::string_view name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    fields.integer(name, -1, kMaxInt, common.max_tokens);
  }
  read_stop(fields, common.stop);
  read_streaming(fields, common);
  fields.text("cache_salt", common.cache_salt);
  fields.integer("priority", 0, kMostPriority, common.priority);
  fields.number("retention_seconds", common.retention_seconds);
  if (common.retention_seconds < 0)
    fields.reject("retention_seconds", "must be 0 (always) or more");
  fields.boolean("cache_report", common.cache_report);
  fields.integer("n", 1, kMaxChoices, common.n);
  std::optional<std::int64_t> best_of;
  fields.integer("best_of", 1, kMaxChoices, best_of);
  if (best_of > common.n) {
    fields.reject(ApiError(make_error(ErrorCode::request_unsupported, {{"field", "best_of"}}), "best_of"));
  }
  fields.boolean("return_tokens", common.return_token_ids);     // llama-server's name
  fields.boolean("return_token_ids", common.return_token_ids);  // vLLM's
  return common;
}

std::optional<ApiError> finish_reading(FieldReader& fields) { return fields.finish(kUnsupported, kHarmless); }

}  // namespace stemma
