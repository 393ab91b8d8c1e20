#pragma once
// An error of the catalogue as OpenAI's clients expect it.

#include <string>

#include <nlohmann/json.hpp>

#include "core/error_catalogue.h"
#include "core/result.h"
#include "server/http_message.h"

namespace stemma {

// An error and the request's field that it is about (empty: none in particular).
struct ApiError {
  ApiError(Error e, std::string p = {}) : error(std::move(e)), param(std::move(p)) {}

  Error error;
  std::string param;
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;

// {"error": {"message", "type", "param", "code"}}; `code` is the catalogue's.
nlohmann::ordered_json error_json(const ApiError& error);

// The same as a whole reply with the catalogue's status. 429 and 503 carry Retry-After.
HttpReply error_reply(const ApiError& error);

// Compact JSON text; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const nlohmann::ordered_json& json);

}  // namespace stemma
