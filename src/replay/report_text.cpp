#include "replay/report_text.h"

#include <array>

#include "replay/print.h"

namespace stemma::replay {

namespace {

template <class Value>
double mean(const SystemResult& system, Value value) {
  double sum = 0;
  for (const ReplayResult& order : system.orders) sum += static_cast<double>(value(order));
  return system.orders.empty() ? 0 : sum / static_cast<double>(system.orders.size());
}

double mean_hit(const SystemResult& system) { return spread(hit_shares(system)).mean; }

void print_reuse(std::string& text, const BudgetResult& budget, const SweepResult& sweep) {
  const SystemResult* lru = find_system(budget, "lru");
  print(text, "  %-16s %7s %6s %7s %18s %8s %8s %9s %9s %9s\n", "system", "hit %", "sd", "of inf",
        "against lru", "won/lost", "saved %", "TTFT p50", "p90", "p99 ms");
  for (const SystemResult& system : budget.systems) {
    const Spread hits = spread(hit_shares(system));
    const double infinite = mean_hit(sweep.infinite);
    print(text, "  %-16s %7.2f %6.2f %7.1f", system.system.c_str(), 100 * hits.mean, 100 * hits.sd,
          infinite > 0 ? 100 * hits.mean / infinite : 0);
    if (lru && lru != &system) {
      const PairedDifference paired = paired_hits(system, *lru);
      print(text, "  %+8.2f +- %5.2f %5d/%-3d", 100 * paired.difference.mean,
            100 * paired.difference.standard_error, paired.wins, paired.losses);
    } else {
      print(text, " %28s", "");
    }
    const double saved = mean(system, [](const ReplayResult& r) { return r.saved_flops; });
    const double flops = mean(system, [](const ReplayResult& r) { return r.prompt_flops; });
    print(text, " %8.2f %9.0f %9.0f %9.0f\n", flops > 0 ? 100 * saved / flops : 0,
          mean(system, [](const ReplayResult& r) { return 1000 * r.ttft.p50; }),
          mean(system, [](const ReplayResult& r) { return 1000 * r.ttft.p90; }),
          mean(system, [](const ReplayResult& r) { return 1000 * r.ttft.p99; }));
  }
}

void print_costs(std::string& text, const BudgetResult& budget, const SweepResult& sweep) {
  const double state = sweep.model.state(sweep.config.cache.codec);
  const double page = sweep.model.kv_bytes * sweep.unit.page_tokens();
  print(text, "  %-16s %9s %9s %9s %9s %9s %9s %7s %7s %7s %6s %6s %6s %7s\n", "", "restored",
        "stored GB", "skipped", "ev.pages", "ev.states", "waits", "preempt", "refused", "states",
        "p50", "p99 us", "busy %", "B/token");
  for (const SystemResult& system : budget.systems) {
    const auto cache = [&](auto field) {
      return mean(system, [&](const ReplayResult& r) { return r.cache.*field; });
    };
    const double restored = cache(&CacheModelStats::restored_states) * state +
                            cache(&CacheModelStats::copied_pages) * page;
    print(text,
          "  %-16s %9.1f %9.1f %9.0f %9.0f %9.0f %9.0f %7.0f %7.0f %7.0f %6.1f %6.1f %6.1f %7.2f\n",
          system.system.c_str(), restored / 1e9,
          cache(&CacheModelStats::stored_states) * state / 1e9,
          cache(&CacheModelStats::skipped_marks), cache(&CacheModelStats::evicted_pages),
          cache(&CacheModelStats::evicted_states),
          mean(system, [](const ReplayResult& r) { return r.waits_in_flight + r.waits_memory; }),
          mean(system, [](const ReplayResult& r) { return r.preemptions; }),
          mean(system, [](const ReplayResult& r) { return r.refused; }),
          cache(&CacheModelStats::checkpoints),
          mean(system, [](const ReplayResult& r) { return 1e6 * r.decision.p50; }),
          mean(system, [](const ReplayResult& r) { return 1e6 * r.decision.p99; }),
          mean(system, [](const ReplayResult& r) { return 100 * r.prefill_busy; }),
          mean(system, [&](const ReplayResult& r) {
            const double tokens = static_cast<double>(r.cache.cached_units) * sweep.unit.tokens;
            return tokens > 0 ? static_cast<double>(r.cache.metadata_bytes) / tokens : 0;
          }));
  }
}

// What kept requests from reusing more, in % of them.
void print_limits(std::string& text, const BudgetResult& budget) {
  text += "  reused no more because of:\n";
  for (const SystemResult& system : budget.systems) {
    double all = 0;
    std::array<double, kReuseLimits> limits{};
    for (const ReplayResult& order : system.orders) {
      for (std::size_t i = 0; i < limits.size(); ++i) {
        limits[i] += static_cast<double>(order.cache.limits[i]);
        all += static_cast<double>(order.cache.limits[i]);
      }
    }
    print(text, "  %-16s", system.system.c_str());
    for (std::size_t i = 0; i < limits.size(); ++i) {
      if (limits[i] == 0) continue;
      print(text, " %s %.1f %%", std::string(name_of(static_cast<ReuseLimit>(i))).c_str(),
            100 * limits[i] / all);
    }
    text += '\n';
  }
}

}  // namespace

std::string report_text(const SweepResult& sweep) {
  std::string text;
  const ReplayResult& first = sweep.infinite.orders.front();
  const SweepConfig& config = sweep.config;
  print(text, "%s (%s): %zu sessions, %llu requests, %.1f M prompt tokens, %.1f M answer tokens\n",
        sweep.trace.c_str(), sweep.trace_format.c_str(), sweep.sessions,
        static_cast<unsigned long long>(first.requests),
        static_cast<double>(first.prompt_tokens) / 1e6,
        static_cast<double>(first.answer_tokens) / 1e6);
  if (!sweep.note.empty()) text += "note: " + sweep.note + "\n";
  print(
      text, "%s: KV %.0f B a token, a %s state %.1f MB = %.0f tokens of KV\n",
      sweep.model.name.c_str(), sweep.model.kv_bytes,
      std::string(kStateCodecNames[static_cast<std::size_t>(config.cache.codec)]).c_str(),
      sweep.model.state(config.cache.codec) / 1e6,
      sweep.model.kv_bytes > 0 ? sweep.model.state(config.cache.codec) / sweep.model.kv_bytes : 0);
  print(text,
        "units of %d tokens, at most %d at once, prefill %.0f tokens/s in chunks of %d, decode "
        "%.0f tokens/s (profile %s), "
        "%d order%s, replayed in %.2f s each\n",
        sweep.unit.tokens, config.load.concurrency, config.load.profile.prefill,
        config.load.chunk_tokens, config.load.profile.decode, config.load.profile.name.c_str(),
        config.orders, config.orders == 1 ? "" : "s",
        mean(sweep.infinite, [](const ReplayResult& r) { return r.real_seconds; }));
  print(text, "infinite cache: hit %.2f %%\n", 100 * mean_hit(sweep.infinite));
  for (const BudgetResult& budget : sweep.budgets) {
    print(text, "\nbudget %.2f GB\n", budget.budget_bytes / 1e9);
    print_reuse(text, budget, sweep);
    print_costs(text, budget, sweep);
    print_limits(text, budget);
  }
  return text;
}

}  // namespace stemma::replay
