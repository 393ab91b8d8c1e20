// stemma replay: request traces through the cache, and what each policy and budget makes of them.

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <iostream>

#include "cli/command.h"
#include "replay/report_text.h"
#include "replay/sweep.h"
#include "replay/trace_reader.h"

namespace stemma {

namespace {

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::erase(parts, "");
  return parts;
}

Result<std::vector<double>> read_budgets(const std::string& list) {
  constexpr double kMost = 1024.0 * 1024 * 1024 * 1024 * 1024;
  std::vector<double> budgets;
  for (const std::string& text : split_at_commas(list)) {
    STEMMA_TRY(const OptionValue value,
               parse_value({ValueType::bytes, 1, kMost}, {text}, "--budget", "command line"));
    budgets.push_back(static_cast<double>(std::get<std::int64_t>(value)));
  }
  return budgets;
}

// 0: the trace's blocks.
Result<Depth> read_unit(const std::string& text) {
  if (text == "block") return 0;
  if (text == "token") return 1;
  STEMMA_TRY(const OptionValue value,
             parse_value({ValueType::integer, 1, 1 << 16}, {text}, "--unit", "command line"));
  return static_cast<Depth>(std::get<std::int64_t>(value));
}

Result<replay::SweepConfig> sweep_of(const ReplayOptions& options) {
  replay::SweepConfig sweep{.systems = split_at_commas(options.systems),
                            .orders = options.orders,
                            .seed = options.seed,
                            .concurrency = options.concurrency,
                            .chunk_tokens = options.chunk,
                            .threads = options.threads};
  STEMMA_TRY(sweep.budgets, read_budgets(options.budgets));
  STEMMA_TRY(sweep.unit_tokens, read_unit(options.unit));
  STEMMA_TRY(sweep.profile, replay::find_service_profile(options.profile));
  STEMMA_TRY(sweep.cache.codec, replay::find_state_codec(options.codec));
  sweep.cache.state_share = options.state_share;
  return sweep;
}

// "replay 3/60" on one line of a terminal; silent elsewhere.
replay::SweepProgress progress_on_terminal() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](std::size_t done, std::size_t all) {
    std::fprintf(stderr, "\rreplay %zu/%zu%s", done, all, done == all ? "\r\033[K" : "");
  };
}

}  // namespace

Status replay_command(const CommandInput& input) {
  const ReplayOptions& options = input.resolved.options.replay;
  STEMMA_TRY(const replay::SweepConfig sweep, sweep_of(options));
  STEMMA_TRY(const replay::ModelCosts model, replay::find_model_preset(options.model));
  for (const std::string& path : options.traces) {
    STEMMA_TRY(replay::Trace trace, replay::read_trace_file(path));
    if (options.sessions > 0)
      trace = every_kth_session(trace, static_cast<std::size_t>(options.sessions));
    STEMMA_TRY(const replay::SweepResult result,
               run_sweep(trace, model, sweep, progress_on_terminal()));
    std::cout << report_text(result) << '\n' << std::flush;
  }
  return {};
}

}  // namespace stemma
