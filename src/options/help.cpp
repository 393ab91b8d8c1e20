#include "options/help.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "options/option_table.h"

namespace stemma {

namespace {

constexpr std::size_t kHelpColumn = 34;
constexpr std::size_t kLineWidth = 110;

// "-t, --threads N".
std::string written(const OptionSpec& spec) {
  if (spec.positional) return std::string(spec.placeholder);
  std::string shorts;
  std::string longs = flag_name(spec);
  for (const std::string_view alias : words(spec.aliases)) {
    if (alias.starts_with("--")) {
      longs += ", " + std::string(alias);
    } else {
      shorts += std::string(alias) + ", ";
    }
  }
  std::string all =
      shorts + longs + (spec.placeholder.empty() ? "" : " " + std::string(spec.placeholder));
  for (const std::string_view pair : words(spec.switches))
    all += ", " + std::string(pair.substr(0, pair.find('=')));
  return all;
}

std::string default_of(const OptionSpec& spec) {
  if (!spec.default_text.empty()) return std::string(spec.default_text);
  return spec.rule != nullptr ? "chosen" : "";
}

std::string values_of(const OptionSpec& spec) {
  switch (spec.values.type) {
    case ValueType::choice:
    case ValueType::integer:
    case ValueType::integers:
    case ValueType::number:
      return expected(spec.values);
    default:
      return {};
  }
}

// The groups of a command in the order of their first option.
std::vector<std::string_view> groups_of(Command command) {
  std::vector<std::string_view> groups;
  for (const OptionSpec& spec : option_table()) {
    if (contains(spec.commands, command) && std::find(groups.begin(), groups.end(), spec.group) == groups.end()) {
      groups.push_back(spec.group);
    }
  }
  return groups;
}

// Words after `column` spaces, in lines of kLineWidth; the first goes on where the caller's line stands.
void write_column(std::ostream& out, const std::string& text, std::size_t at) {
  out << std::string(at < kHelpColumn ? kHelpColumn - at : 0, ' ');
  std::istringstream remaining(text);
  std::size_t column = kHelpColumn;
  for (std::string word; remaining >> word;) {
    if (column > kHelpColumn && column + 1 + word.size() > kLineWidth) {
      out << '\n' << std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    }
    if (column > kHelpColumn) {
      out << ' ';
      ++column;
    }
    out << word;
    column += word.size();
  }
  out << '\n';
}

}  // namespace

std::string program_help() {
  std::ostringstream out;
  out << "Stemma serves hybrid (attention + recurrent) language models with an exact prefix cache.\n\n"
         "usage: stemma COMMAND [options]\n\n";
  for (const CommandInfo& info : command_infos()) {
    const std::string name(info.name);
    out << "  " << name << std::string(12 - name.size(), ' ') << info.help << '\n';
  }
  out << "\n`stemma COMMAND --help` shows a command's options, `stemma --version` the version.\n";
  return out.str();
}

std::string command_help(Command command) {
  const CommandInfo& info = command_info(command);
  std::ostringstream out;
  out << "stemma " << info.name << ": " << info.help << "\n\nusage: stemma " << info.name << ' ' << info.usage
      << '\n';
  bool any_environment = false;
  for (const std::string_view group : groups_of(command)) {
    out << '\n' << group << '\n';
    for (const OptionSpec& spec : option_table()) {
      if (!contains(spec.commands, command) || spec.group != group) continue;
      any_environment |= has_environment(spec);
      const std::string names = "  " + written(spec);
      std::size_t at = names.size();
      out << names;
      if (at + 2 > kHelpColumn) {
        out << '\n';
        at = 0;
      }
      std::string text(spec.help);
      if (spec.values.type == ValueType::choice) text += ": " + expected(spec.values);
      if (const std::string preset = default_of(spec); !preset.empty()) text += " [" + preset + "]";
      if (spec.required) text += " (required)";
      write_column(out, text, at);
    }
  }
  if (any_environment) {
    out << "\nThe environment sets options too: STEMMA_CTX_SIZE=8192 is --ctx-size 8192. Flags go before the\n"
           "environment, the environment before --config FILE. [chosen]: the program chooses, and says why.\n";
  }
  return out.str();
}

std::string options_markdown() {
  std::ostringstream out;
  out << "# Options\n\n"
         "Made from the option table by `stemma help --markdown`; a test keeps it up to date.\n\n"
         "A value comes from the command line, else from the environment, else from the file that `--config` names (a\n"
         "JSON object: `{\"threads\": 4, \"ctx-size\": 8192}`), else a rule chooses it (default \"chosen\") and the server's\n"
         "first lines and `/server_info` say why, else it is the default. Sizes take `K`, `M`, `G`, `T` and count MiB\n"
         "without a unit. The aliases are names that users of SGLang and llama-server know.\n";
  for (const CommandInfo& info : command_infos()) {
    out << "\n## stemma " << info.name << "\n\n`stemma " << info.name << ' ' << info.usage << "`: " << info.help
        << ".\n";
    for (const std::string_view group : groups_of(info.command)) {
      out << "\n### " << group << "\n\n| option | default | environment | meaning |\n| --- | --- | --- | --- |\n";
      for (const OptionSpec& spec : option_table()) {
        if (!contains(spec.commands, info.command) || spec.group != group) continue;
        std::string help(spec.help);
        if (const std::string values = values_of(spec); !values.empty()) help += " (" + values + ")";
        std::string names = written(spec);
        std::string cell;
        for (const char c : names) cell += c == '|' ? std::string("\\|") : std::string(1, c);
        out << "| `" << cell << "` | " << default_of(spec) << (spec.required ? "required" : "") << " | "
            << (has_environment(spec) ? "`" + environment_name(spec) + "`" : "") << " | " << help << " |\n";
      }
    }
  }
  return out.str();
}

}  // namespace stemma
