#pragma once
// The one table of every option: parsing, help, validation, docs/options.md and /server_info come from it. Adding an
// option is adding a row.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "options/commands.h"
#include "options/facts.h"
#include "options/options.h"
#include "options/value.h"

namespace stemma {

// What a rule chose, and the reason in words.
struct Decision {
  OptionValue value;
  std::string why;
};

struct OptionSpec {
  // "threads" is `--threads` on a command line, STEMMA_THREADS in the environment and "threads" in a configuration file.
  std::string_view name;
  std::string_view aliases = {};      // other flags for it, separated by spaces; names that SGLang and llama-server use
  // Flags without a value that stand for this one with a value, separated by spaces:
  // "--enable-mamba-extra-buffer=extra_buffer".
  std::string_view switches = {};
  CommandSet commands;           // which take it
  std::string_view group;        // heading in the help
  ValueRules values;
  std::string_view placeholder = {};  // of the value, in the help
  std::string_view default_text = {}; // as one would type it; empty: none, or the rule's choice
  std::string_view help;
  // Puts a value of the type that `values` says into its place. Null for options that the command line itself uses up.
  void (*store)(Options& options, const OptionValue& value) = nullptr;
  // Chooses when nobody asked, from the options above it in the table and the facts; nullopt: no value (yet).
  std::optional<Decision> (*rule)(const Options& so_far, const Facts& facts) = nullptr;
  bool required = false;
  bool positional = false;  // given without its name
  bool secret = false;      // its value is never shown
};

// All rows, in the order in which they are resolved and shown.
std::span<const OptionSpec> option_table();

// The row that `flag` ("--ctx-size", "-c", "ctx-size") means for a command. O(rows).
const OptionSpec* find_option(Command command, std::string_view flag);

// The known flag of a command that looks most like `flag`, if one is near. O(rows x length).
std::optional<std::string> nearest_flag(Command command, std::string_view flag);

// "--threads", "STEMMA_THREADS".
std::string flag_name(const OptionSpec& spec);
std::string environment_name(const OptionSpec& spec);

// Whether the environment and configuration files may set it: the options of a server, which are set up once.
bool has_environment(const OptionSpec& spec);

}  // namespace stemma
