// stemma explain: the error catalogue on a terminal.

#include <iostream>

#include "cli/command.h"
#include "core/error_catalogue.h"

namespace stemma {

Status explain_command(const CommandInput& input) {
  const ExplainOptions& options = input.resolved.options.explain;
  if (options.json) {
    std::cout << explain_all_json() << '\n';
    return {};
  }
  if (options.text.empty()) {
    for (const ErrorEntry& entry : error_entries()) std::cout << entry.code << "\n    " << entry.message << '\n';
    return {};
  }
  const auto code = find_error(options.text);
  if (!code) return fail(ErrorCode::explain_unknown, {{"text", options.text}});
  std::cout << explain_error(*code);
  return {};
}

}  // namespace stemma
