#include "replay/plan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "replay/print.h"

namespace stemma::replay {

namespace {

constexpr std::array<Depth, 5> kLengths = {1024, 4096, 16384, 65536, 262144};
constexpr std::array<std::optional<double>, 5> kShares = {std::nullopt, 0.2, 0.4, 0.6, 0.8};

struct NamedSnapshots {
  const char* name;
  SnapshotSettings settings;
};

std::vector<NamedSnapshots> snapshot_choices() {
  SnapshotSettings ends;
  ends.periodic_interval = ends.idle_interval = 0;
  ends.generation_interval = ends.ladder_start = 0;
  SnapshotSettings dense;
  dense.periodic_interval = 256;
  SnapshotSettings sparse;
  sparse.periodic_interval = sparse.idle_interval = 4096;
  SnapshotSettings no_repeat = ends;
  no_repeat.repeat_snapshot = false;
  return {{"branches and ends only", ends},
          {"every 256 tokens", dense},
          {"every 4096 tokens", sparse},
          {"branches and ends only, none for repeats", no_repeat}};
}

bool better(const Trial& a, const Trial& b) {
  if (a.result.saved_flops != b.result.saved_flops)
    return a.result.saved_flops > b.result.saved_flops;
  return a.codec < b.codec;  // the more exact one
}

std::string split_name(const Trial& trial) {
  if (!trial.state_share) return "one pool for both";
  std::string text;
  print(text, "--state-share %.1f", *trial.state_share);
  return text;
}

std::string_view codec_name(StateCodec codec) {
  return kStateCodecNames[static_cast<std::size_t>(codec)];
}

}  // namespace

std::vector<Holding> holdings(const ModelCosts& model, StateCodec codec, double budget_bytes) {
  std::vector<Holding> result;
  for (const Depth length : kLengths) {
    result.push_back(
        {length, std::floor(budget_bytes / (length * model.kv_bytes + model.state(codec)))});
  }
  return result;
}

Result<Advice> advise(const Trace& trace, const ModelCosts& model, double budget_bytes,
                      const std::string& policy, const LoadConfig& load,
                      const SweepProgress& progress) {
  STEMMA_TRY(Runner runner, Runner::create(trace, model, load));
  STEMMA_TRY(const ReplayResult infinite, runner.run("infinite", {}, 0));
  Advice advice{trace.name, budget_bytes, infinite.hit_share(), {}};
  const bool has_states = model.state(StateCodec::f32) > 0;
  const std::size_t codecs = has_states ? 3 : 1;
  const std::size_t all = has_states ? codecs * kShares.size() + snapshot_choices().size() : 1;
  std::size_t done = 0;
  const auto attempt = [&](Trial trial) -> Status {
    CacheSettings settings;
    settings.budget_bytes = budget_bytes;
    settings.codec = trial.codec;
    settings.cost = CostUnit::flops;
    settings.state_share = trial.state_share;
    settings.snapshot = trial.settings;
    STEMMA_TRY(trial.result, runner.run(policy, settings, 0));
    advice.trials.push_back(std::move(trial));
    if (progress) progress(++done, all);
    return {};
  };

  const SnapshotSettings defaults;
  for (std::size_t codec = 0; codec < codecs; ++codec) {
    for (const std::optional<double>& share : kShares) {
      STEMMA_CHECK(attempt({static_cast<StateCodec>(codec), share, "default", defaults, {}}));
      if (!has_states) break;
    }
  }
  const Trial best = *std::min_element(advice.trials.begin(), advice.trials.end(), better);
  for (const NamedSnapshots& choice :
       has_states ? snapshot_choices() : std::vector<NamedSnapshots>{}) {
    STEMMA_CHECK(attempt({best.codec, best.state_share, choice.name, choice.settings, {}}));
  }
  std::stable_sort(advice.trials.begin(), advice.trials.end(), better);
  return advice;
}

std::string plan_text(const ModelCosts& model, double budget_bytes) {
  std::string text;
  print(text, "%s: %d attention and %d recurrent layers (sizes: %s)\n", model.name.c_str(),
        model.attention_layers, model.recurrent_layers, model.basis.c_str());
  print(text, "KV       %.0f bytes a token, 16 bits a value\n", model.kv_bytes);
  if (model.state(StateCodec::f32) == 0) {
    text += "state    none: every layer is attention\n";
  } else {
    print(text, "%-8s %12s %26s\n", "state", "bytes", "weighs as much as");
    for (std::size_t codec = 0; codec < kStateCodecNames.size(); ++codec) {
      const double bytes = model.state(static_cast<StateCodec>(codec));
      print(text, "  %-6s %12.0f %15.0f tokens of KV\n",
            std::string(kStateCodecNames[codec]).c_str(), bytes,
            model.kv_bytes > 0 ? bytes / model.kv_bytes : 0);
    }
    text +=
        "A prefix shorter than that costs more to keep as a state than as KV; both are needed for "
        "a hit.\n";
  }
  if (budget_bytes == 0) return text;
  print(text, "\n%.2f GB hold %.0f tokens of KV alone, or", budget_bytes / 1e9,
        budget_bytes / model.kv_bytes);
  for (std::size_t codec = 0; codec < kStateCodecNames.size(); ++codec) {
    const double bytes = model.state(static_cast<StateCodec>(codec));
    if (bytes > 0) {
      print(text, "%s %.0f %s checkpoints", codec == 0 ? "" : ",", budget_bytes / bytes,
            std::string(kStateCodecNames[codec]).c_str());
    }
  }
  print(text, "\nsessions with one checkpoint each:\n  %10s %8s %8s %8s\n", "tokens", "f32", "bf16",
        "int8");
  const auto f32 = holdings(model, StateCodec::f32, budget_bytes);
  const auto bf16 = holdings(model, StateCodec::bf16, budget_bytes);
  const auto int8 = holdings(model, StateCodec::int8, budget_bytes);
  for (std::size_t i = 0; i < f32.size(); ++i) {
    print(text, "  %10d %8.0f %8.0f %8.0f\n", f32[i].length, f32[i].sessions, bf16[i].sessions,
          int8[i].sessions);
  }
  return text;
}

std::string advice_text(const Advice& advice, const ModelCosts& model) {
  std::string text;
  const Trial& best = advice.trials.front();
  print(text, "%s at %.2f GB: an infinite cache reuses %.2f %% of the prompt tokens\n",
        advice.trace.c_str(), advice.budget_bytes / 1e9, 100 * advice.infinite_hit);
  print(text, "recommended: %s, %s states, snapshots: %s\n", split_name(best).c_str(),
        std::string(codec_name(best.codec)).c_str(), best.snapshots.c_str());
  print(text,
        "  because it saves the most prefill of %zu settings tried: %.2f %% of the FLOPs, %.2f %% "
        "of the tokens;\n",
        advice.trials.size(), 100 * best.result.saved_flops / best.result.prompt_flops,
        100 * best.result.hit_share());
  print(text, "  at the end it held %llu checkpoints, %.2f GB of the budget\n",
        static_cast<unsigned long long>(best.result.cache.checkpoints),
        static_cast<double>(best.result.cache.checkpoints) * model.state(best.codec) / 1e9);
  const Trial* exact = nullptr;
  for (const Trial& trial : advice.trials) {
    if (trial.codec == StateCodec::f32 && !exact) exact = &trial;
  }
  if (exact && best.codec != StateCodec::f32) {
    print(text, "  %s states are rounded; the best with exact ones saves %.2f %% (%s)\n",
          std::string(codec_name(best.codec)).c_str(),
          100 * exact->result.saved_flops / exact->result.prompt_flops, split_name(*exact).c_str());
  }
  print(text, "  %-6s %-18s %8s %8s %9s %9s  %s\n", "codec", "split", "hit %", "saved %",
        "TTFT p50", "p99 ms", "snapshots");
  for (const Trial& trial : advice.trials) {
    print(text, "  %-6s %-18s %8.2f %8.2f %9.0f %9.0f  %s\n",
          std::string(codec_name(trial.codec)).c_str(), split_name(trial).c_str(),
          100 * trial.result.hit_share(),
          100 * trial.result.saved_flops / trial.result.prompt_flops, 1e3 * trial.result.ttft.p50,
          1e3 * trial.result.ttft.p99, trial.snapshots.c_str());
  }
  return text;
}

}  // namespace stemma::replay
