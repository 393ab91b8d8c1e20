#pragma once
// The commands of the program, for dispatch and help.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stemma {

enum class Command : std::uint8_t { serve, run, bench, inspect, make_model, explain, replay, plan };

// A set of commands: which of them take an option.
using CommandSet = std::uint8_t;
constexpr CommandSet only(Command command) {
  return static_cast<CommandSet>(1u << static_cast<unsigned>(command));
}
constexpr bool contains(CommandSet set, Command command) { return (set & only(command)) != 0; }

struct CommandInfo {
  Command command;
  std::string_view name;   // "make-model"
  std::string_view usage;  // its arguments
  std::string_view help;   // one line
};

// In the order of Command.
std::span<const CommandInfo> command_infos();
inline const CommandInfo& command_info(Command command) {
  return command_infos()[static_cast<std::size_t>(command)];
}
std::optional<Command> find_command(std::string_view name);

}  // namespace stemma
