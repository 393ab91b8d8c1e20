#pragma once
// Logging: spdlog, set up in one place. Everything logs through spdlog's functions (spdlog::info(...)) to standard
// error, so standard output is free for what a command prints.

#include <string_view>

namespace stemma {

// The levels that --log-level takes, from the most talkative to none.
constexpr std::string_view kLogLevels = "trace debug info warning error off";

// Lines as "12:34:56.789 info  text" on standard error, from `level` on. `level` is one of kLogLevels. Called once, by the
// command line, before anything logs.
void start_logging(std::string_view level);

}  // namespace stemma
