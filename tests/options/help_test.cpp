#include "options/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "options/option_table.h"

namespace stemma {
namespace {

using ::testing::HasSubstr;

TEST(Help, ShowsEveryOptionOfACommandAndNoOther) {
  for (const CommandInfo& info : command_infos()) {
    const std::string help = command_help(info.command);
    EXPECT_THAT(help, HasSubstr(std::string(info.help)));
    for (const OptionSpec& spec : option_table()) {
      if (!contains(spec.commands, info.command)) continue;
      EXPECT_THAT(help, HasSubstr(flag_name(spec))) << info.name;
    }
    EXPECT_THAT(program_help(), HasSubstr(std::string(info.name)));
  }
  EXPECT_THAT(command_help(Command::explain), ::testing::Not(HasSubstr("--threads")));
}

TEST(Help, LinesFitATerminal) {
  for (const CommandInfo& info : command_infos()) {
    std::istringstream lines(command_help(info.command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  }
}

TEST(Help, NoTwoOptionsOfACommandShareAName) {
  for (const CommandInfo& info : command_infos()) {
    std::set<std::string> names;
    for (const OptionSpec& spec : option_table()) {
      if (!contains(spec.commands, info.command)) continue;
      EXPECT_TRUE(names.insert(flag_name(spec)).second) << info.name << ' ' << spec.name;
      for (const std::string_view alias : words(spec.aliases)) {
        EXPECT_TRUE(names.insert(std::string(alias)).second) << info.name << ' ' << alias;
      }
    }
  }
}

TEST(Help, TheOptionsPageIsUpToDate) {
  std::ifstream file(STEMMA_SOURCE_DIR "/docs/options.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), options_markdown()) << "run: build/release/stemma help --markdown >docs/options.md";
}

}  // namespace
}  // namespace stemma
