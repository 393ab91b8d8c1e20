#include "options/resolve.h"

#include <nlohmann/json.hpp>

namespace stemma {

namespace {

Result<ResolvedOption> resolve_one(const OptionSpec& spec, const AskedOptions& asked, const Options& so_far,
                                   const Facts& facts) {
  const std::string flag = flag_name(spec);
  if (const auto found = asked.values.find(&spec); found != asked.values.end()) {
    const AskedValue& given = found->second;
    STEMMA_TRY(OptionValue value, parse_value(spec.values, given.texts, flag, given.where));
    const bool says_more = given.origin != Origin::flag;
    return ResolvedOption{&spec, std::move(value), given.origin, says_more ? given.where : ""};
  }
  if (spec.rule != nullptr) {
    if (auto decision = spec.rule(so_far, facts)) {
      return ResolvedOption{&spec, std::move(decision->value), Origin::rule, std::move(decision->why)};
    }
  }
  if (spec.required) {
    return fail(ErrorCode::option_required, {{"option", flag},
                                             {"command", std::string(command_info(asked.command).name)},
                                             {"help", std::string(spec.help)}});
  }
  if (spec.default_text.empty()) return ResolvedOption{&spec, std::nullopt, Origin::preset, {}};
  STEMMA_TRY(OptionValue value, parse_value(spec.values, {std::string(spec.default_text)}, flag, "default"));
  return ResolvedOption{&spec, std::move(value), Origin::preset, {}};
}

}  // namespace

Result<ResolvedOptions> resolve(const AskedOptions& asked, const Facts& facts) {
  ResolvedOptions resolved;
  if (asked.command == Command::run) resolved.options.engine.max_sequences = 1;  // one prompt
  for (const OptionSpec& spec : option_table()) {
    if (!contains(spec.commands, asked.command) || spec.store == nullptr) continue;
    STEMMA_TRY(ResolvedOption entry, resolve_one(spec, asked, resolved.options, facts));
    if (entry.value) spec.store(resolved.options, *entry.value);
    resolved.entries.push_back(std::move(entry));
  }
  return resolved;
}

nlohmann::json to_json(const ResolvedOptions& resolved) {
  nlohmann::json all = nlohmann::json::object();
  for (const ResolvedOption& entry : resolved.entries) {
    nlohmann::json& shown = all[std::string(entry.spec->name)];
    shown["value"] = !entry.value ? nlohmann::json() : entry.spec->secret ? "hidden" : to_json(*entry.value);
    shown["origin"] = origin_name(entry.origin);
    if (!entry.why.empty()) shown["why"] = entry.why;
  }
  return all;
}

std::vector<std::string> decisions(const ResolvedOptions& resolved) {
  std::vector<std::string> lines;
  for (const ResolvedOption& entry : resolved.entries) {
    if (entry.origin != Origin::rule || !entry.value) continue;
    lines.push_back(std::string(entry.spec->name) + " = " + display(entry.spec->values, *entry.value) + ": " +
                    entry.why);
  }
  return lines;
}

}  // namespace stemma
