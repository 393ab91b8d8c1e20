#pragma once
// The one catalogue of every error a user can meet: src/core/errors/*.json, embedded at build time. Its codes are
// an enum (core/error_codes.h, generated), so code cannot name an error that the catalogue lacks.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/error_codes.h"

namespace stemma {

// What a program needs of an entry; the rest (causes, solutions, examples) is for people: explain_error().
struct ErrorEntry {
  std::string_view code;       // "gguf_truncated"
  std::string_view message;    // pattern with {fields}
  int http_status;             // as the server answers it
  std::string_view http_type;  // OpenAI's error type, e.g. "invalid_request_error"
};

// All entries, in the order of ErrorCode. O(1).
std::span<const ErrorEntry> error_entries();
inline const ErrorEntry& error_entry(ErrorCode code) {
  return error_entries()[static_cast<std::size_t>(code)];
}

// The code named `text`, or the one whose pattern `text` matches (an error message as printed). O(entries).
std::optional<ErrorCode> find_error(std::string_view code_or_message);

// For `stemma explain`: the entry as text for a terminal.
std::string explain_error(ErrorCode code);

// For `stemma explain --json`: all entries in the schema of public error knowledge bases (design section 10).
std::string explain_all_json();

}  // namespace stemma
