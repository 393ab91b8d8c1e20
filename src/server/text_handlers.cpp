#include "server/text_handlers.h"

#include "server/json_body.h"
#include "server/utf8_json.h"

namespace stemma {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr std::string_view kModel[] = {"model"};

tl::unexpected<ApiError> missing(const char* field) {
  return tl::unexpected<ApiError>(ApiError(make_error(ErrorCode::request_missing_field, {{"field", field}}), field));
}

}  // namespace

ApiResult<ordered_json> tokenize(const Tokenizer& tokenizer, std::string_view body) {
  auto object = parse_json_object(body);
  if (!object) return tl::unexpected<ApiError>(std::move(object).error());
  FieldReader fields(*object);
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
  fields.boolean("add_special", add_special);
  fields.boolean("parse_special", parse_special);
  fields.boolean("with_pieces", with_pieces);
  std::string text;
  const bool given = fields.find("content") || fields.find("prompt");
  fields.text("prompt", text);
  fields.text("content", text);
  if (auto error = fields.finish({}, kModel)) return tl::unexpected<ApiError>(std::move(*error));
  if (!given) return missing("content");

  ordered_json tokens = ordered_json::array();
  for (const Token token : tokenizer.encode(text, add_special, parse_special)) {
    if (!with_pieces) {
      tokens.push_back(token);
      continue;
    }
    const std::string piece = tokenizer.piece(token, true);
    tokens.push_back({{"id", token}, {"piece", is_utf8(piece) ? ordered_json(piece) : bytes_json(piece)}});
  }
  return ordered_json{{"tokens", std::move(tokens)}};
}

ApiResult<ordered_json> detokenize(const Tokenizer& tokenizer, std::string_view body) {
  auto object = parse_json_object(body);
  if (!object) return tl::unexpected<ApiError>(std::move(object).error());
  FieldReader fields(*object);
  const json* list = fields.find("tokens");
  if (auto error = fields.finish({}, kModel)) return tl::unexpected<ApiError>(std::move(*error));
  if (!list) return missing("tokens");
  if (!list->is_array()) {
    fields.reject("tokens", "must be an array of token ids");
    return tl::unexpected<ApiError>(*fields.error());
  }
  std::vector<Token> tokens;
  for (const json& item : *list) {
    if (!item.is_number_integer()) {
      fields.reject("tokens", "must be an array of token ids");
      return tl::unexpected<ApiError>(*fields.error());
    }
    const auto id = item.get<std::int64_t>();
    if (id < 0 || id >= static_cast<std::int64_t>(tokenizer.size())) {
      return tl::unexpected<ApiError>(
          ApiError(make_error(ErrorCode::request_token_out_of_range, {{"token", item.dump()},
                                                                      {"position", std::to_string(tokens.size())},
                                                                      {"size", std::to_string(tokenizer.size())}}),
                   "tokens"));
    }
    tokens.push_back(static_cast<Token>(id));
  }
  return ordered_json{{"content", tokenizer.decode(tokens, true)}};
}

}  // namespace stemma
