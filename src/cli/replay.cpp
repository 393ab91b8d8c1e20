// stemma replay: request traces through the cache, and what each policy and budget makes of them.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/replay_inputs.h"
#include "replay/auto_budgets.h"
#include "replay/plot_svg.h"
#include "replay/report_json.h"
#include "replay/report_text.h"

namespace stemma {

namespace {

// 0: the trace's blocks.
Result<Depth> read_unit(const std::string& text) {
  if (text == "block") return 0;
  if (text == "token") return 1;
  STEMMA_TRY(const OptionValue value,
             parse_value({ValueType::integer, 1, 1 << 16}, {text}, "--unit", "command line"));
  return static_cast<Depth>(std::get<std::int64_t>(value));
}

// Without budgets.
Result<replay::SweepConfig> sweep_of(const ReplayOptions& options) {
  replay::SweepConfig sweep;
  sweep.systems = split_at_commas(options.systems);
  sweep.orders = options.orders;
  sweep.threads = options.threads;
  sweep.load.shuffle = options.orders > 1;
  sweep.load.seed = options.seed;
  sweep.load.concurrency = options.concurrency;
  sweep.load.chunk_tokens = options.chunk;
  STEMMA_TRY(sweep.load.unit_tokens, read_unit(options.unit));
  STEMMA_TRY(sweep.load.profile, replay::find_service_profile(options.profile));
  STEMMA_TRY(sweep.cache.codec, replay::find_state_codec(options.codec));
  sweep.cache.state_share = options.state_share;
  return sweep;
}

Result<std::vector<double>> budgets_for(const ReplayOptions& options, const replay::Trace& trace,
                                        const replay::ModelCosts& model,
                                        const replay::SweepConfig& sweep) {
  if (options.budgets != "auto") return read_budgets("--budget", options.budgets);
  STEMMA_TRY(const auto chosen, choose_budgets(trace, model, sweep));
  std::vector<double> budgets;
  for (const replay::ChosenBudget& budget : chosen) {
    std::fprintf(
        stderr,
        "budget %.2f GB: lru reaches %.1f %% of the infinite cache's hits (%.0f %% wanted)\n",
        budget.bytes / 1e9, 100 * budget.reached, 100 * budget.target);
    budgets.push_back(budget.bytes);
  }
  return budgets;
}

// "replay 3/60" on one line of a terminal; silent elsewhere.
replay::SweepProgress progress_on_terminal() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](std::size_t done, std::size_t all) {
    std::fprintf(stderr, "\rreplay %zu/%zu%s", done, all, done == all ? "\r\033[K" : "");
  };
}

// Of several traces, the first's plot has the name that was given, the others' one with a number
// before its end.
std::string plot_path(const std::string& given, std::size_t trace) {
  if (trace == 0) return given;
  const std::size_t dot = given.ends_with(".svg") ? given.size() - 4 : given.size();
  return given.substr(0, dot) + "-" + std::to_string(trace + 1) + given.substr(dot);
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (file && file << text && file.flush()) return {};
  return fail(ErrorCode::file_write_failed, {{"file", path}, {"reason", std::strerror(errno)}});
}

}  // namespace

Status replay_command(const CommandInput& input) {
  const ReplayOptions& options = input.resolved.options.replay;
  STEMMA_TRY(replay::SweepConfig sweep, sweep_of(options));
  STEMMA_TRY(const replay::ModelCosts model, read_model_costs(options.model));
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t i = 0; i < options.traces.size(); ++i) {
    STEMMA_TRY(const replay::Trace trace, read_trace(options.traces[i], options.sessions));
    STEMMA_TRY(sweep.budgets, budgets_for(options, trace, model, sweep));
    STEMMA_TRY(const replay::SweepResult result,
               run_sweep(trace, model, sweep, progress_on_terminal()));
    if (options.format == "json") {
      all.push_back(report_json(result));
    } else {
      std::cout << report_text(result) << '\n' << std::flush;
    }
    if (!options.plot.empty())
      STEMMA_CHECK(write_file(plot_path(options.plot, i), plot_svg(result)));
  }
  if (options.format == "json") std::cout << all.dump(2) << '\n';
  return {};
}

}  // namespace stemma
