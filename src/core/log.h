#pragma once
// Logging: spdlog, set up in one place. Everything logs through spdlog's functions (spdlog::info(...)) to standard
// error, so standard output is free for what a command prints.

#include <span>
#include <string_view>

namespace stemma {

// The levels that --log-level takes, from the most talkative to "off".
std::span<const std::string_view> log_level_names();

// Lines as "12:34:56.789 info  text" on standard error, from `level` on. `level` is one of log_level_names(). Called once, by
// the command line, before anything logs.
void start_logging(std::string_view level);

}  // namespace stemma
