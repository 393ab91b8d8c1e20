#pragma once
// From what was asked to what will run: a pure function that says where each value came from and why.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "options/asked.h"
#include "options/facts.h"
#include "options/options.h"

namespace stemma {

struct ResolvedOption {
  const OptionSpec* spec;
  std::optional<OptionValue> value;  // nullopt: not set, which means what the option's help says
  Origin origin;
  std::string why;  // a rule's reason, or the variable or file that asked for it
};

struct ResolvedOptions {
  Options options;
  std::vector<ResolvedOption> entries;  // every option of the command, in the table's order
};

// Without a model in `facts`, options that depend on it stay unset; resolving again once it is known changes no other.
// Errors: `option_bad_value`, `option_required`. O(options).
Result<ResolvedOptions> resolve(const AskedOptions& asked, const Facts& facts);

// {"threads": {"value": 2, "origin": "rule", "why": "..."}, ...}, secrets hidden: for /server_info.
nlohmann::json to_json(const ResolvedOptions& resolved);

// "threads = 2: one for each core ...", one line for each value that a rule chose.
std::vector<std::string> decisions(const ResolvedOptions& resolved);

}  // namespace stemma
