#include "options/asked.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace stemma {
namespace {

using Texts = std::vector<std::string>;

const AskedValue* find(const AskedOptions& asked, std::string_view name) {
  const auto found = asked.values.find(find_option(asked.command, name));
  return found == asked.values.end() ? nullptr : &found->second;
}

Texts texts(const AskedOptions& asked, std::string_view name) {
  const AskedValue* value = find(asked, name);
  return value ? value->texts : Texts{};
}

ErrorCode code_of(Command command, const Texts& arguments) {
  const auto asked = parse_command_line(command, arguments);
  EXPECT_FALSE(asked.has_value());
  return asked.error().code();
}

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(CommandLine, KnowsEveryNameOfAnOption) {
  for (const char* name : {"--ctx-size", "-c", "--context-length"}) {
    EXPECT_EQ(texts(parse_command_line(Command::serve, {name, "4096"}).value(), "ctx-size"), Texts{"4096"}) << name;
  }
  EXPECT_EQ(texts(parse_command_line(Command::serve, {"-np", "4"}).value(), "max-running-requests"), Texts{"4"});
  EXPECT_EQ(texts(parse_command_line(Command::serve, {"-ctk", "f32"}).value(), "cache-type-k"), Texts{"f32"});
  EXPECT_EQ(texts(parse_command_line(Command::serve, {"--port=80"}).value(), "port"), Texts{"80"});
  EXPECT_EQ(texts(parse_command_line(Command::run, {"-p", "-1", "-n", "3"}).value(), "prompt"), Texts{"-1"});
}

TEST(CommandLine, EveryAliasOfTheTableIsUnderstood) {
  for (const OptionSpec& spec : option_table()) {
    for (const CommandInfo& info : command_infos()) {
      if (!contains(spec.commands, info.command) || spec.positional) continue;
      std::vector<std::string> names = {flag_name(spec)};
      for (const std::string_view alias : words(spec.aliases)) names.emplace_back(alias);
      const std::size_t with_values = names.size();
      for (const std::string_view pair : words(spec.switches))
        names.emplace_back(pair.substr(0, pair.find('=')));
      for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string& name = names[i];
        Texts arguments = {name};
        if (spec.values.type != ValueType::flag && i < with_values) arguments.emplace_back("1");
        const auto asked = parse_command_line(info.command, arguments);
        ASSERT_TRUE(asked.has_value()) << info.name << ' ' << name << ": " << asked.error().message();
        EXPECT_TRUE(asked->values.contains(&spec)) << info.name << ' ' << name;
      }
    }
  }
}

TEST(CommandLine, ASwitchStandsForAFlagWithItsValueAndTheLastCounts) {
  const auto strategies = [](const Texts& arguments) {
    return texts(parse_command_line(Command::serve, arguments).value(), "mamba-scheduler-strategy");
  };
  EXPECT_EQ(strategies({"--enable-mamba-extra-buffer"}), Texts{"extra_buffer"});
  EXPECT_EQ(
      strategies({"--enable-mamba-extra-buffer", "--mamba-radix-cache-strategy", "no_buffer"}),
      (Texts{"extra_buffer", "no_buffer"}));
  EXPECT_EQ(parse_command_line(Command::serve, {"--enable-mamba-extra-bufer"}).error().message(),
            "--enable-mamba-extra-bufer (the command line) is not an option; did you mean "
            "--enable-mamba-extra-buffer?");
}

TEST(CommandLine, ListsKeepAllTheirValues) {
  const auto asked = parse_command_line(Command::serve, {"--api-key", "a", "--port", "1", "--api-key", "b"});
  EXPECT_EQ(texts(asked.value(), "api-key"), (Texts{"a", "b"}));
}

TEST(CommandLine, PositionalsTakeWordsInAnyPlace) {
  const auto parsed = parse_command_line(Command::explain, {"the", "prompt", "--json", "is empty"});
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  const AskedOptions& asked = *parsed;
  const AskedValue* json = find(asked, "json");
  ASSERT_NE(json, nullptr);
  EXPECT_EQ(asked.values.size(), 2u);
  for (const auto& [spec, value] : asked.values) {
    if (!spec->positional) continue;
    EXPECT_EQ(value.texts, (Texts{"the", "prompt", "is empty"}));
  }
}

TEST(CommandLine, AnUnknownOptionNamesTheNearest) {
  const auto asked = parse_command_line(Command::serve, {"--thread", "4"});
  ASSERT_FALSE(asked.has_value());
  EXPECT_EQ(asked.error().message(),
            "--thread (the command line) is not an option; did you mean --threads?");
  const auto nonsense = parse_command_line(Command::serve, {"--xyzzy-plugh"});
  EXPECT_EQ(nonsense.error().message(), "--xyzzy-plugh (the command line) is not an option; "
                                        "`stemma serve --help` lists the options");
}

TEST(CommandLine, RefusesWhatItCannotPlace) {
  EXPECT_EQ(code_of(Command::serve, {"--prompt", "x"}), ErrorCode::option_unknown);
  EXPECT_EQ(code_of(Command::serve, {"--port"}), ErrorCode::option_missing_value);
  EXPECT_EQ(code_of(Command::serve, {"model.gguf"}), ErrorCode::option_unexpected_argument);
  EXPECT_EQ(code_of(Command::run, {"-p", "two", "words"}), ErrorCode::option_unexpected_argument);
}

TEST(Asked, TheCommandLineGoesBeforeTheEnvironmentBeforeTheFile) {
  AskedOptions asked = parse_command_line(Command::serve, {"--threads", "1"}).value();
  add_environment(asked, environment_of({{"STEMMA_THREADS", "2"}, {"STEMMA_PORT", "81"}, {"STEMMA_NOTHING", "x"}}));
  ASSERT_TRUE(add_config(asked, "a.json", R"({"threads": 3, "port": 82, "ctx-size": 4096,
                                              "api-key": ["a", "b"], "snapshot-end": false,
                                              "snapshot-offsets-from-end": [0, 16]})"));
  EXPECT_EQ(texts(asked, "threads"), Texts{"1"});
  EXPECT_EQ(texts(asked, "port"), Texts{"81"});
  EXPECT_EQ(find(asked, "port")->where, "STEMMA_PORT");
  EXPECT_EQ(texts(asked, "ctx-size"), Texts{"4096"});
  EXPECT_EQ(find(asked, "ctx-size")->where, "a.json: ctx-size");
  EXPECT_EQ(texts(asked, "api-key"), (Texts{"a", "b"}));
  EXPECT_EQ(texts(asked, "snapshot-end"), Texts{"false"});
  EXPECT_EQ(texts(asked, "snapshot-offsets-from-end"), (Texts{"0", "16"}));
}

TEST(Asked, AServersFileServesOtherCommandsToo) {
  AskedOptions asked = parse_command_line(Command::run, {}).value();
  ASSERT_TRUE(add_config(asked, "a.json", R"({"threads": 3, /* not for run */ "port": 82})"));
  EXPECT_EQ(asked.values.size(), 1u);
  EXPECT_EQ(texts(asked, "threads"), Texts{"3"});
}

TEST(Asked, AFileIsChecked) {
  AskedOptions asked = parse_command_line(Command::serve, {}).value();
  for (const char* text : {"", "{", "[]", R"({"port": {}})", R"({"port": null})",
                           R"({"api-key": [1]})", R"({"snapshot-offsets-from-end": ["1"]})"}) {
    const Status added = add_config(asked, "a.json", text);
    ASSERT_FALSE(added.has_value()) << text;
    EXPECT_EQ(added.error().code(), ErrorCode::config_invalid) << text;
  }
  EXPECT_EQ(add_config(asked, "a.json", R"({"prot": 1})").error().message(),
            "prot (a.json) is not an option; did you mean --port?");
}

TEST(Asked, ReadsTheFileThatIsNamed) {
  const auto path = std::filesystem::path(testing::TempDir()) / "stemma-asked-test.json";
  std::ofstream(path) << R"({"threads": 7})";
  const auto by_flag = read_asked(Command::serve, {"--config", path.string()}, environment_of({}));
  EXPECT_EQ(texts(by_flag.value(), "threads"), Texts{"7"});
  const auto by_variable = read_asked(Command::serve, {}, environment_of({{"STEMMA_CONFIG", path.string()}}));
  EXPECT_EQ(texts(by_variable.value(), "threads"), Texts{"7"});
  std::filesystem::remove(path);
  EXPECT_EQ(read_asked(Command::serve, {"--config", path.string()}, environment_of({})).error().code(),
            ErrorCode::config_not_readable);
}

}  // namespace
}  // namespace stemma
