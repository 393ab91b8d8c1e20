// The program: finds the command, resolves its options, runs it. Exit status 0: done; 1: it failed; 2: it was called
// wrongly.

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "core/error_catalogue.h"
#include "core/log.h"
#include "options/help.h"

namespace stemma {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr CommandFunction kFunctions[] = {
    serve_command,      run_command,     bench_command,  inspect_command,
    make_model_command, explain_command, replay_command, plan_command};  // in the order of Command

int report(const Error& error, int status) {
  std::cout << std::flush;
  std::cerr << "error " << error.to_string() << '\n'
            << "`stemma explain " << error_entry(error.code()).code << "` says more\n";
  return status;
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

int unknown_command(const std::string& name) {
  const std::string hint = "`stemma --help` lists them";
  return report(make_error(ErrorCode::command_unknown, {{"command", name}, {"hint", hint}}), kUsage);
}

int run_program(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::cerr << program_help();
    return kUsage;
  }
  const std::string& name = arguments.front();
  if (name == "--version" || name == "version") {
    std::cout << "stemma " STEMMA_VERSION << '\n';
    return 0;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    const bool markdown = arguments.size() > 1 && arguments[1] == "--markdown";
    std::cout << (markdown ? options_markdown() : program_help());
    return 0;
  }
  const auto command = find_command(name);
  if (!command) return unknown_command(name);

  const auto asked = read_asked(*command, {arguments.begin() + 1, arguments.end()}, environment_variable);
  if (!asked) return report(asked.error(), kUsage);
  if (asked->values.contains(find_option(*command, "help"))) {
    std::cout << command_help(*command);
    return 0;
  }
  const Facts facts{.machine = read_machine_facts(), .model = {}};
  const auto resolved = resolve(*asked, facts);
  if (!resolved) return report(resolved.error(), kUsage);
  if (!resolved->options.log_level.empty()) start_logging(resolved->options.log_level);
  const Status done =
      kFunctions[static_cast<std::size_t>(*command)]({.asked = *asked, .facts = facts, .resolved = *resolved});
  return done ? 0 : report(done.error(), kFailed);
}

}  // namespace
}  // namespace stemma

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  return stemma::run_program({argv + 1, argv + argc});
}
