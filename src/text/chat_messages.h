#pragma once
// What a chat request's messages must look like before a template sees them.

#include <nlohmann/json.hpp>

#include "core/result.h"

namespace stemma {

// `messages` without the fields that are null, after checking: an array of objects, each with a role (system, developer,
// user, assistant, tool), content (a string or an array of text parts; it may be missing beside tool calls) and, for
// assistants, tool_calls. Other fields (name, tool_call_id, reasoning_content) are strings if present. Nothing is nested
// deeper than 64, which the recursive code below a template relies on. Errors: `chat_bad_messages` with the message's
// index. O(bytes).
Result<nlohmann::json> checked_chat_messages(const nlohmann::json& messages);

// chat_template_kwargs: null or an object, no deeper than 64, that does not replace what a template gets from the request
// itself (messages, tools, ...). Errors: `chat_bad_messages`.
Status check_template_arguments(const nlohmann::json& arguments);

}  // namespace stemma
