#pragma once
// What the commands of the program have in common: how they are called, how they fail, and how a model is opened.

#include <functional>
#include <memory>

#include "compute/device.h"
#include "core/result.h"
#include "models/gguf_file.h"
#include "models/model.h"
#include "options/facts.h"
#include "options/resolve.h"

namespace stemma {

// A command gets its resolved options (without model facts) and what was asked, to resolve again when it knows the
// model. It prints its own output; an error is printed by main().
struct CommandInput {
  const AskedOptions& asked;
  const Facts& facts;
  const ResolvedOptions& resolved;
};
using CommandFunction = Status (*)(const CommandInput& input);

Status serve_command(const CommandInput& input);
Status run_command(const CommandInput& input);
Status bench_command(const CommandInput& input);
Status inspect_command(const CommandInput& input);
Status make_model_command(const CommandInput& input);
Status explain_command(const CommandInput& input);
Status replay_command(const CommandInput& input);
Status plan_command(const CommandInput& input);

// A model in memory and all that was decided for it. Members are destroyed in reverse order.
struct OpenedModel {
  std::shared_ptr<const GgufFile> file;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  ResolvedOptions resolved;  // with the model's facts
};

// Opens the file, makes the device, loads the weights (with progress on a terminal) and resolves the options again.
// Errors: those of GgufFile::open, load_model and resolve.
Result<OpenedModel> open_model(const CommandInput& input);

// The chat template that --chat-template gives: the text itself, or that of the file; empty if it gives none.
// Errors: `chat_template_not_readable`.
Result<std::string> read_chat_template(const std::string& text_or_path);

}  // namespace stemma
