#include "server/completion_request.h"

#include <algorithm>
#include <random>

#include "server/json_body.h"
#include "server/request_fields.h"

namespace stemma {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxChoicesInAll = 1024;
constexpr int kMaxLogprobs = 20;
constexpr int kDefaultMaxTokens = 16;  // OpenAI's, of text completions

struct Prompt {
  std::vector<Token> tokens;
  std::vector<Depth> message_ends;
};

bool all_of_type(const json& list, bool (json::*is)() const noexcept) {
  return std::all_of(list.begin(), list.end(), [is](const json& item) { return (item.*is)(); });
}

// Ids outside the vocabulary are the engine's to refuse; here only what no Token can hold.
std::vector<Token> token_ids(FieldReader& fields, const json& list) {
  std::vector<Token> tokens;
  tokens.reserve(list.size());
  for (const json& item : list) {
    const auto id = item.get<std::int64_t>();
    if (id != static_cast<Token>(id)) {
      fields.reject("prompt", "has the token id " + item.dump() + ", which no vocabulary has");
      return {};
    }
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

// A string, token ids, or an array of either.
std::vector<Prompt> read_prompts(FieldReader& fields, const Tokenizer& tokenizer) {
  constexpr const char* kExpected =
      "must be a string, an array of token ids, an array of strings, or an array of arrays of token ids";
  bool add_special = true;
  fields.boolean("add_special_tokens", add_special);
  const json* field = fields.find("prompt");
  if (!field) {
    fields.reject(ApiError(make_error(ErrorCode::request_missing_field, {{"field", "prompt"}}), "prompt"));
  }
  if (fields.error()) return {};

  std::vector<Prompt> prompts;
  const auto add_text = [&](const json& text) {
    prompts.push_back({tokenizer.encode(text.get_ref<const std::string&>(), add_special, true), {}});
  };
  if (field->is_string()) {
    add_text(*field);
  } else if (!field->is_array()) {
    fields.reject("prompt", kExpected);
  } else if (all_of_type(*field, &json::is_number_integer)) {  // also the empty array: an empty prompt
    prompts.push_back({token_ids(fields, *field), {}});
  } else if (field->size() > kMaxChoicesInAll) {
    fields.reject("prompt", "may have at most " + std::to_string(kMaxChoicesInAll) + " prompts");
  } else if (all_of_type(*field, &json::is_string)) {
    for (const json& text : *field) add_text(text);
  } else if (std::all_of(field->begin(), field->end(), [](const json& item) {
               return item.is_array() && all_of_type(item, &json::is_number_integer);
             })) {
    for (const json& list : *field) prompts.push_back({token_ids(fields, list), {}});
  } else {
    fields.reject("prompt", kExpected);
  }
  return prompts;
}

// Parts of messages other than text.
bool has_media(const json& messages) {
  if (!messages.is_array()) return false;
  return std::any_of(messages.begin(), messages.end(), [](const json& message) {
    if (!message.is_object()) return false;
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) return false;
    return std::any_of(content->begin(), content->end(), [](const json& part) {
      if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) return false;
      const auto& type = part["type"].get_ref<const std::string&>();
      return type == "image_url" || type == "input_audio" || type == "file" || type == "video_url";
    });
  });
}

std::vector<Prompt> read_messages(FieldReader& fields, const PromptContext& context) {
  json arguments = json::object();
  if (const json* given = fields.find("chat_template_kwargs")) {
    if (given->is_object()) arguments = *given;
    else fields.reject("chat_template_kwargs", "must be an object");
  }
  std::string effort;
  fields.text("reasoning_effort", effort);
  if (!effort.empty()) arguments["reasoning_effort"] = effort;
  const json* messages = fields.find("messages");
  if (!messages) {
    fields.reject(ApiError(make_error(ErrorCode::request_missing_field, {{"field", "messages"}}), "messages"));
  } else if (has_media(*messages)) {
    fields.reject(ApiError(make_error(ErrorCode::request_unsupported, {{"field", "messages"}}), "messages"));
  }
  if (fields.error()) return {};

  auto rendered = context.chat_template.apply(*messages, arguments, context.context_length);
  if (!rendered) {
    fields.reject(ApiError(std::move(rendered).error(), "messages"));
    return {};
  }
  std::vector<Prompt> prompts;
  prompts.push_back({std::move(rendered->tokens), std::move(rendered->message_ends)});
  return prompts;
}

void read_text_logprobs(FieldReader& fields, SamplingParams& sampling) {
  fields.integer("logprobs", 0, kMaxLogprobs, sampling.logprobs);
}

void read_chat_logprobs(FieldReader& fields, SamplingParams& sampling) {
  bool wanted = false;
  fields.boolean("logprobs", wanted);
  std::optional<std::int64_t> top;
  fields.integer("top_logprobs", 0, kMaxLogprobs, top);
  if (top > 0 && !wanted) return fields.reject("top_logprobs", "needs \"logprobs\": true");
  if (wanted) sampling.logprobs = static_cast<int>(top.value_or(0));
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

int max_tokens_of(const CommonFields& common, CompletionApi api, std::size_t prompt, Depth context) {
  // At least 1, so that a prompt without room is refused and not answered with nothing.
  const int rest = std::max<int>(1, context - static_cast<Depth>(std::min<std::size_t>(prompt, context)));
  if (common.max_tokens == -1) return rest;
  if (common.max_tokens) return static_cast<int>(*common.max_tokens);
  return api == CompletionApi::chat ? rest : std::min(kDefaultMaxTokens, rest);
}

ApiResult<CompletionRequest> read_request(CompletionApi api, const json& object,
                                          const PromptContext& context) {
  FieldReader fields(object);
  CommonFields common = read_common_fields(fields);
  std::vector<Prompt> prompts;
  // Prompts last: tokenizing is the work, and is not begun for a request with another error.
  if (api == CompletionApi::text) {
    read_text_logprobs(fields, common.sampling);
    prompts = read_prompts(fields, context.tokenizer);
  } else {
    read_chat_logprobs(fields, common.sampling);
    prompts = read_messages(fields, context);
  }
  // Choices copy their prompt, so one that cannot fit goes no further.
  for (const Prompt& prompt : prompts) {
    if (prompt.tokens.size() > static_cast<std::size_t>(context.context_length)) {
      fields.reject(ApiError(make_error(ErrorCode::request_prompt_too_long,
                                        {{"tokens", std::to_string(prompt.tokens.size())},
                                         {"limit", std::to_string(context.context_length)}}),
                             api == CompletionApi::text ? "prompt" : "messages"));
    }
  }
  const auto n = static_cast<std::size_t>(common.n);
  if (prompts.size() * n > kMaxChoicesInAll) {
    fields.reject("n", "times the number of prompts may be at most " + std::to_string(kMaxChoicesInAll));
  }
  if (auto error = finish_reading(fields)) return tl::unexpected<ApiError>(std::move(*error));

  CompletionRequest request;
  request.api = api;
  request.choices_per_prompt = n;
  request.stop = std::move(common.stop);
  request.stream = common.stream;
  request.include_usage = common.include_usage;
  request.return_token_ids = common.return_token_ids;
  request.logprobs = common.sampling.logprobs >= 0;
  request.cache_report = common.cache_report;
  const std::uint64_t seed = common.seed ? static_cast<std::uint64_t>(*common.seed) : random_seed();
  for (const Prompt& prompt : prompts) {
    for (std::size_t k = 0; k < n; ++k) {
      GenerationRequest& choice = request.choices.emplace_back();
      choice.prompt = prompt.tokens;
      choice.message_ends = prompt.message_ends;
      choice.cache_salt = common.cache_salt;
      choice.priority = static_cast<std::uint8_t>(common.priority);
      choice.retention_seconds = common.retention_seconds;
      choice.sampling = common.sampling;
      choice.sampling.seed = seed + k;
      choice.max_tokens = max_tokens_of(common, api, prompt.tokens.size(), context.context_length);
    }
  }
  return request;
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(CompletionApi api, std::string_view body,
                                                      const PromptContext& context) {
  const auto object = parse_json_object(body);
  if (!object) return tl::unexpected<ApiError>(object.error());
  return read_request(api, *object, context);
}

ApiResult<GenerationRequest> parse_explain_request(std::string_view body,
                                                   const PromptContext& context) {
  const auto object = parse_json_object(body);
  if (!object) return tl::unexpected<ApiError>(object.error());
  const bool chat = object->contains("messages");
  auto request = read_request(chat ? CompletionApi::chat : CompletionApi::text, *object, context);
  if (!request) return tl::unexpected<ApiError>(std::move(request).error());
  if (request->choices.size() != request->choices_per_prompt) {
    return tl::unexpected<ApiError>(
        ApiError(make_error(ErrorCode::request_bad_field,
                            {{"field", "prompt"}, {"reason", "must be a single prompt here"}}),
                 "prompt"));
  }
  return std::move(request->choices.front());
}

}  // namespace stemma
