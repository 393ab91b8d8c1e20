#pragma once
// Help and docs/options.md, from the option table.

#include <string>

#include "options/commands.h"

namespace stemma {

// `stemma --help`: the commands.
std::string program_help();

// `stemma COMMAND --help`.
std::string command_help(Command command);

// docs/options.md (`stemma help --markdown`).
std::string options_markdown();

}  // namespace stemma
