// stemma serve: opens a model, says what was chosen for it and why, and serves it until a signal asks to end.

#include <csignal>
#include <cstdio>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "cli/command.h"
#include "cli/open_files.h"
#include "cli/stop_signals.h"
#include "engine/engine.h"
#include "server/server.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace stemma {

namespace {

// When recurrent states are stored.
std::string snapshot_line(const EngineConfig& config, bool recurrent) {
  if (!recurrent) return "none: no recurrent layers";
  const bool automatic = config.strategy == SchedulerStrategy::automatic;
  const SchedulerStrategy used = automatic ? SchedulerStrategy::extra_buffer_lazy : config.strategy;
  std::string line = std::string(name_of(used)) +
                     (automatic ? " (auto: the fewest rows for the same states)" : "");
  const SnapshotSettings& plan = config.snapshot;
  const std::string end = plan.end_snapshot ? "where an answer ends" : "";
  if (used == SchedulerStrategy::no_buffer)
    return line + ": stored " + (end.empty() ? "never" : end);

  std::vector<std::string> places;
  const auto every = [](Depth tokens) { return "every " + std::to_string(tokens); };
  if (plan.periodic_interval > 0)
    places.push_back(every(plan.periodic_interval) + " tokens of a prompt");
  if (plan.idle_interval > 0)
    places.push_back(every(plan.idle_interval) + " while most rows are free");
  if (plan.generation_interval > 0)
    places.push_back(every(plan.generation_interval) + " of an answer");
  if (plan.ladder_start > 0)
    places.push_back("at " + std::to_string(plan.ladder_start) + " and its doubles");
  const std::size_t offsets = plan.offsets_from_start.size() + plan.offsets_from_end.size();
  if (offsets > 0) places.push_back("at " + std::to_string(offsets) + " given offsets");
  if (plan.branch_snapshot) places.push_back("at branches");
  if (plan.message_snapshot) places.push_back("at message ends");
  if (plan.repeat_snapshot) places.push_back("before a prompt's last token");
  if (!end.empty()) places.push_back(end);
  line += ": stored ";
  for (std::size_t i = 0; i < places.size(); ++i) line += (i > 0 ? ", " : "") + places[i];
  return places.empty() ? line + "never" : line;
}

void print_choices(const OpenedModel& opened, const ChatTemplate& chat_template, const Engine& engine) {
  const ModelInfo& info = opened.model->info();
  const Options& options = opened.resolved.options;
  const auto type_name = [](DType type) { return type == DType::f32 ? "f32" : "f16"; };
  std::cout << "model    " << info.name << ": " << info.architecture << ", " << info.layers
            << " layers, " << info.parameters / 1000000 << " M parameters, "
            << display_bytes(static_cast<double>(info.weight_bytes)) << " of " << info.weight_types
            << '\n'
            << "device   " << opened.device->description() << '\n'
            << "cache    " << engine.memory_split().explanation << '\n'
            << "         keys " << type_name(options.engine.k_type) << ", values "
            << type_name(options.engine.v_type) << ", states f32; pages of "
            << options.engine.page_size << " tokens; evicts by " << options.engine.eviction << '\n'
            << "states   " << snapshot_line(options.engine, engine.memory_split().row_count > 0)
            << '\n'
            << "context  " << engine.context_length() << " tokens\n"
            << "chat     template: " << chat_template.source() << '\n';
  for (const std::string& decision : decisions(opened.resolved)) std::cout << "chose    " << decision << '\n';
}

void print_example(const ServerConfig& config, std::uint16_t port) {
  const std::string host = config.host == "0.0.0.0" || config.host == "::" ? "127.0.0.1" : config.host;
  const std::string address =
      "http://" + (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + std::to_string(port);
  std::cout << "listening on " << address << "\n\ntry:\n"
            << "  curl -N " << address << "/v1/chat/completions -H 'Content-Type: application/json'"
            << (config.api_keys.empty() ? "" : " -H \"Authorization: Bearer $KEY\"") << " \\\n"
            << R"(    -d '{"messages": [{"role": "user", "content": "Tell me a story about the sea."}], "max_tokens": 100,)"
            << "\n"
            << R"(         "stream": true, "stream_options": {"include_usage": true}}')"
            << "\n\nCtrl-C ends it." << std::endl;
}

// A connection for each request that may run or wait.
void check_open_files(const EngineConfig& config, std::uint64_t open_files) {
  const std::uint64_t wanted = static_cast<std::uint64_t>(config.max_sequences) + config.max_waiting + kOwnOpenFiles;
  if (open_files >= wanted) return;
  spdlog::warn("the system lets this process have {} open files: some {} connections, although {} requests may run or wait; "
               "raise the hard limit (ulimit -Hn) or lower --max-waiting",
               open_files, open_files - std::min(open_files, kOwnOpenFiles), wanted - kOwnOpenFiles);
}

}  // namespace

Status serve_command(const CommandInput& input) {
  StopSignals signals;  // before any thread starts
  STEMMA_TRY(const OpenedModel opened, open_model(input));
  const Options& options = opened.resolved.options;
  STEMMA_TRY(const auto tokenizer, Tokenizer::load(*opened.file));
  STEMMA_TRY(const std::string template_source, read_chat_template(options.chat_template));
  STEMMA_TRY(const auto chat_template, ChatTemplate::load(*tokenizer, template_source));
  STEMMA_TRY(const auto engine, Engine::create(options.engine, *opened.model, *opened.device, *tokenizer));
  check_open_files(options.engine, raise_open_file_limit());
  print_choices(opened, *chat_template, *engine);
  STEMMA_TRY(const auto server, Server::start(options.server, {.engine = *engine,
                                                               .tokenizer = *tokenizer,
                                                               .chat_template = *chat_template,
                                                               .model = opened.model->info(),
                                                               .options = to_json(opened.resolved)}));
  print_example(options.server, server->port());
  signals.wait();
  std::cout << "\nending: requests under way may finish; once more ends at once" << std::endl;
  signals.exit_on_next();
  server->drain(options.drain_seconds);
  return {};
}

}  // namespace stemma
