#include "text/chat_messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace stemma {

namespace {

using nlohmann::json;

constexpr int kMaxNesting = 64;
constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
constexpr std::array kReservedArguments = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};

tl::unexpected<Error> bad(std::string reason) {
  return fail(ErrorCode::chat_bad_messages, {{"reason", std::move(reason)}});
}

bool too_deep(const json& value, int budget) {
  if (!value.is_structured()) return false;
  if (budget == 0) return true;
  return std::any_of(value.begin(), value.end(), [&](const json& element) { return too_deep(element, budget - 1); });
}

// Tool arguments usually come as JSON in a string, which templates parse.
bool too_deep_inside(const std::string& text) {
  bool deep = false;
  const auto callback = [&](int depth, json::parse_event_t, json&) {
    deep |= depth > kMaxNesting;
    return !deep;
  };
  [[maybe_unused]] const json parsed = json::parse(text, callback, false);
  return deep;
}

Status check_content(const std::string& where, const json& content) {
  if (content.is_string()) return {};
  if (!content.is_array()) return bad(where + ".content must be a string or an array of text parts");
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string part_name = where + ".content[" + std::to_string(i) + "]";
    const json& part = content[i];
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
      return bad(part_name + " must be an object with a type");
    if (part["type"] != "text")
      return bad(part_name + " has type " + part["type"].get<std::string>() + "; this model takes text only");
    if (!part.contains("text") || !part["text"].is_string()) return bad(part_name + ".text must be a string");
  }
  return {};
}

Status check_tool_calls(const std::string& where, const json& calls) {
  if (!calls.is_array()) return bad(where + ".tool_calls must be an array");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string name = where + ".tool_calls[" + std::to_string(i) + "]";
    const json& call = calls[i];
    if (!call.is_object() || call.value("type", json()) != "function") return bad(name + ".type must be function");
    if (!call.contains("function") || !call["function"].is_object()) return bad(name + ".function must be an object");
    if (call.contains("id") && !call["id"].is_string()) return bad(name + ".id must be a string");
    const json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string())
      return bad(name + ".function.name must be a string");
    if (!function.contains("arguments")) return bad(name + ".function.arguments is missing");
    const json& arguments = function["arguments"];
    if (arguments.is_string() && too_deep_inside(arguments.get_ref<const std::string&>()))
      return bad(name + ".function.arguments is nested too deeply");
  }
  return {};
}

Status check_message(const std::string& where, const json& message) {
  if (!message.is_object()) return bad(where + " must be an object");
  if (!message.contains("role") || !message["role"].is_string()) return bad(where + ".role must be a string");
  const auto& role = message["role"].get_ref<const std::string&>();
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
    return bad(where + ".role is " + role + "; it must be system, developer, user, assistant or tool");

  const bool calls = message.contains("tool_calls");
  if (calls && role != "assistant") return bad(where + ".tool_calls belong to assistant messages");
  if (calls) STEMMA_CHECK(check_tool_calls(where, message["tool_calls"]));
  if (message.contains("content")) {
    STEMMA_CHECK(check_content(where, message["content"]));
  } else if (!calls) {
    return bad(where + ".content is missing");
  }
  for (const char* field : {"name", "tool_call_id", "reasoning_content"})
    if (message.contains(field) && !message[field].is_string()) return bad(where + "." + field + " must be a string");
  return {};
}

// Clients send answers back with all fields of their own types, most of them null.
json without_nulls(const json& message) {
  if (!message.is_object()) return message;
  json result = json::object();
  for (const auto& [name, value] : message.items())
    if (!value.is_null()) result[name] = value;
  return result;
}

}  // namespace

Result<json> checked_chat_messages(const json& messages) {
  if (!messages.is_array() || messages.empty()) return bad("must be an array of at least one message");
  if (too_deep(messages, kMaxNesting)) return bad("nested too deeply");
  json result = json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    result.push_back(without_nulls(messages[i]));
    STEMMA_CHECK(check_message("messages[" + std::to_string(i) + "]", result.back()));
  }
  return result;
}

Status check_template_arguments(const json& arguments) {
  if (arguments.is_null()) return {};
  if (!arguments.is_object()) return bad("chat_template_kwargs must be an object");
  if (too_deep(arguments, kMaxNesting)) return bad("chat_template_kwargs is nested too deeply");
  for (const char* name : kReservedArguments)
    if (arguments.contains(name)) return bad(std::string("chat_template_kwargs may not set ") + name);
  return {};
}

}  // namespace stemma
