#include "server/api_error.h"

namespace stemma {

nlohmann::ordered_json error_json(const ApiError& error) {
  const ErrorEntry& entry = error_entry(error.error.code());
  nlohmann::ordered_json body = {{"message", error.error.message()}, {"type", entry.http_type}};
  body["param"] = error.param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param);
  body["code"] = entry.code;
  return {{"error", std::move(body)}};
}

HttpReply error_reply(const ApiError& error) {
  HttpReply reply;
  reply.status = error_entry(error.error.code()).http_status;
  reply.body = to_text(error_json(error));
  if (reply.status == 429 || reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (reply.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

std::string to_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace stemma
