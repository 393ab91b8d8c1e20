#include "options/asked.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace stemma {

namespace {

using Json = nlohmann::json;

// "did you mean --threads?", or where the known ones are listed.
std::string hint_for(Command command, std::string_view flag) {
  if (const auto nearest = nearest_flag(command, flag)) return "did you mean " + *nearest + "?";
  return "`stemma " + std::string(command_info(command).name) + " --help` lists the options";
}

tl::unexpected<Error> unknown_option(Command command, const std::string& option, std::string_view where) {
  return fail(ErrorCode::option_unknown, {{"option", option},
                                          {"where", std::string(where)},
                                          {"hint", hint_for(command, option)}});
}

// A switch as the flag and value that it stands for. CLI11's short flags have one letter;
// llama-server's "-np" and the like are put as their long names.
std::string normalized(Command command, const std::string& argument) {
  const bool short_word = argument.size() > 2 && argument[0] == '-' && argument[1] != '-';
  for (const OptionSpec& spec : option_table()) {
    if (!contains(spec.commands, command)) continue;
    for (const std::string_view pair : words(spec.switches)) {
      const std::size_t equals = pair.find('=');
      if (pair.substr(0, equals) == argument)
        return flag_name(spec) + std::string(pair.substr(equals));
    }
    if (!short_word) continue;
    for (const std::string_view alias : words(spec.aliases)) {
      if (alias == argument) return flag_name(spec);
    }
  }
  return argument;
}

// Names of a row in CLI11's form: "--threads,-t".
std::string cli_names(const OptionSpec& spec) {
  if (spec.positional) return std::string(spec.name);
  std::string names = flag_name(spec);
  for (const std::string_view alias : words(spec.aliases)) {
    if (alias.starts_with("--") || alias.size() == 2) names += "," + std::string(alias);
  }
  return names;
}

// The texts of one value of a configuration file; nullopt for values that the option cannot take.
std::optional<std::vector<std::string>> texts_of(const OptionSpec& spec, const Json& value) {
  if (value.is_string()) return std::vector{value.get<std::string>()};
  if (value.is_boolean() || value.is_number()) return std::vector{value.dump()};
  if (!value.is_array() || value.empty()) return std::nullopt;
  const bool integers = spec.values.type == ValueType::integers;
  std::vector<std::string> texts;
  for (const Json& item : value) {
    if (integers ? !item.is_number_integer() : !item.is_string()) return std::nullopt;
    texts.push_back(integers ? item.dump() : item.get<std::string>());
  }
  return texts;
}

}  // namespace

std::string_view origin_name(Origin origin) {
  switch (origin) {
    case Origin::preset: return "default";
    case Origin::rule: return "rule";
    case Origin::file: return "configuration file";
    case Origin::environment: return "environment";
    case Origin::flag: return "command line";
  }
  return {};
}

Result<AskedOptions> parse_command_line(Command command, const std::vector<std::string>& arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<std::pair<const OptionSpec*, CLI::Option*>> rows;
  for (const OptionSpec& spec : option_table()) {
    if (!contains(spec.commands, command)) continue;
    CLI::Option* option = spec.values.type == ValueType::flag ? app.add_flag(cli_names(spec))
                                                              : app.add_option(cli_names(spec));
    if (spec.values.type != ValueType::flag) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      if (spec.positional && spec.values.type == ValueType::texts) option->allow_extra_args();
    }
    rows.emplace_back(&spec, option);
  }

  std::vector<std::string> reversed;  // as CLI11 wants them
  for (auto argument = arguments.rbegin(); argument != arguments.rend(); ++argument) {
    reversed.push_back(normalized(command, *argument));
  }
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    const std::string message = mismatch.what();
    const std::string flag = message.substr(0, message.find(':'));
    const OptionSpec* spec = find_option(command, flag);
    return fail(ErrorCode::option_missing_value,
                {{"option", flag}, {"expected", spec ? expected(spec->values) : "a value"}});
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::option_unexpected_argument,
                {{"argument", error.what()}, {"command", std::string(command_info(command).name)}});
  }
  for (const std::string& extra : app.remaining()) {
    if (extra.starts_with('-')) return unknown_option(command, extra, "the command line");
    return fail(ErrorCode::option_unexpected_argument,
                {{"argument", extra}, {"command", std::string(command_info(command).name)}});
  }

  AskedOptions asked{.command = command, .values = {}};
  for (const auto& [spec, option] : rows) {
    if (option->count() == 0) continue;
    asked.values[spec] = {option->results(), Origin::flag, "the command line"};
  }
  return asked;
}

void add_environment(AskedOptions& asked, const Environment& environment) {
  for (const OptionSpec& spec : option_table()) {
    if (!contains(spec.commands, asked.command) || !has_environment(spec) || asked.values.contains(&spec)) continue;
    const std::string name = environment_name(spec);
    if (auto value = environment(name)) asked.values[&spec] = {{*std::move(value)}, Origin::environment, name};
  }
}

Status add_config(AskedOptions& asked, const std::string& file_name, const std::string& text) {
  constexpr bool with_exceptions = false;
  constexpr bool with_comments = true;
  const auto invalid = [&](std::string reason) {
    return fail(ErrorCode::config_invalid, {{"file", file_name}, {"reason", std::move(reason)}});
  };
  const Json config = Json::parse(text, nullptr, with_exceptions, with_comments);
  if (config.is_discarded()) return invalid("this is not JSON");
  if (!config.is_object()) return invalid("it must hold one object, {\"option\": value, ...}");
  for (const auto& [key, value] : config.items()) {
    // One file may serve several commands: what only another one takes is not for this one.
    const OptionSpec* of_server = find_option(Command::serve, key);
    if (of_server == nullptr || !has_environment(*of_server)) {
      return unknown_option(Command::serve, key, file_name);
    }
    auto texts = texts_of(*of_server, value);
    if (!texts)
      return invalid(key +
                     " must be a text, a number, true, false or a list of texts or of integers");
    if (contains(of_server->commands, asked.command)) {
      asked.values.try_emplace(of_server, AskedValue{*std::move(texts), Origin::file, file_name + ": " + key});
    }
  }
  return {};
}

Result<AskedOptions> read_asked(Command command, const std::vector<std::string>& arguments,
                                const Environment& environment) {
  STEMMA_TRY(AskedOptions asked, parse_command_line(command, arguments));
  add_environment(asked, environment);
  const OptionSpec* config = find_option(command, "config");
  const auto named = asked.values.find(config);
  if (config == nullptr || named == asked.values.end()) return asked;

  const std::string file_name = named->second.texts.back();
  std::ifstream file(file_name);
  std::ostringstream text;
  if (!(file && text << file.rdbuf())) {
    return fail(ErrorCode::config_not_readable, {{"file", file_name}, {"reason", std::strerror(errno)}});
  }
  STEMMA_CHECK(add_config(asked, file_name, text.str()));
  return asked;
}

}  // namespace stemma
