#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cli/command.h"
#include "compute/cpu/cpu_device.h"
#include "memory/memory.h"

namespace stemma {

namespace {

// "loading 42 %" on one line of a terminal; silent elsewhere.
LoadProgress progress_on_terminal() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [last = -1](std::size_t done, std::size_t total) mutable {
    const int percent = total == 0 ? 100 : static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
    if (percent == last) return;
    last = percent;
    std::fprintf(stderr, "\rloading %3d %%%s", percent, percent == 100 ? "\r\033[K" : "");
  };
}

ModelFacts facts_of(const Model& model, const Device& device) {
  return {.context_length = model.info().context_length,
          .fits = [&model, granularity = device.release_granularity()](const EngineConfig& config) {
            const MemoryBudget budget{
                .bytes = config.cache_bytes,
                .max_sequences = static_cast<std::uint32_t>(config.max_sequences),
                .context_length = config.context_length,
                .state_share = config.state_share,
                .release_granularity = granularity};
            const KvLayout kv = model.kv_layout(config.k_type, config.v_type, config.page_size);
            return split_memory(budget, kv, model.state_layout()).has_value();
          }};
}

}  // namespace

Result<OpenedModel> open_model(const CommandInput& input) {
  OpenedModel opened;
  const Options& options = input.resolved.options;
  STEMMA_TRY(opened.file, GgufFile::open(options.model_path));
  opened.device = make_cpu_device(options.device);
  STEMMA_TRY(opened.model, load_model(opened.file, *opened.device, progress_on_terminal()));
  Facts facts = input.facts;
  facts.model = facts_of(*opened.model, *opened.device);
  STEMMA_TRY(opened.resolved, resolve(input.asked, facts));
  return opened;
}

Result<std::string> read_chat_template(const std::string& text_or_path) {
  if (text_or_path.empty() || text_or_path.find('{') != std::string::npos) return text_or_path;
  std::ifstream file(text_or_path);
  std::ostringstream text;
  if (!(file && text << file.rdbuf())) {
    return fail(ErrorCode::chat_template_not_readable,
                {{"file", text_or_path}, {"reason", std::strerror(errno)}});
  }
  return text.str();
}

}  // namespace stemma
