#pragma once
// What was asked for, option by option, and where: the command line, the environment, a configuration file. Only
// read_asked() touches the world, to read the file that --config names.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "options/option_table.h"

namespace stemma {

// Where a value came from. In rising order of precedence among those that are asked for: file, environment, flag.
enum class Origin { preset, rule, file, environment, flag };

// "default", "rule", "configuration file", "environment", "command line".
std::string_view origin_name(Origin origin);

struct AskedValue {
  std::vector<std::string> texts;  // as typed, at least one
  Origin origin;
  std::string where;  // for messages: "--threads", "STEMMA_THREADS", "stemma.json: threads"
};

struct AskedOptions {
  Command command;
  std::map<const OptionSpec*, AskedValue> values;
};

// The value of an environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// `arguments` are those after the command's name. Errors: `option_unknown`, `option_missing_value`,
// `option_unexpected_argument`.
Result<AskedOptions> parse_command_line(Command command, const std::vector<std::string>& arguments);

// Adds what the environment sets and the command line does not.
void add_environment(AskedOptions& asked, const Environment& environment);

// Adds what a configuration file sets and nothing else does. `text` is a JSON object (comments are
// allowed) of option names and texts, numbers, booleans or lists of texts or integers. Errors:
// `config_invalid`, `option_unknown`.
Status add_config(AskedOptions& asked, const std::string& file_name, const std::string& text);

// All three. Errors: those above and `config_not_readable`.
Result<AskedOptions> read_asked(Command command, const std::vector<std::string>& arguments,
                                const Environment& environment);

}  // namespace stemma
