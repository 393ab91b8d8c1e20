#pragma once
// One replay after another of the same trace, model and load: what they can share is made once.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "replay/driver.h"
#include "replay/future.h"
#include "replay/memory_plan.h"
#include "replay/path_index.h"

namespace stemma::replay {

// How a trace is run, whatever the system and its budget.
struct LoadConfig {
  Depth unit_tokens = 0;  // 0: the trace's blocks
  bool shuffle = false;   // orders are drawn; else each is the trace's own
  std::uint64_t seed = 1;
  int concurrency = 32;
  Depth chunk_tokens = 2048;
  ServiceProfile profile{"gpu", 80000, 100};
};

// Thread-safe. Must not outlive its trace and model.
class Runner {
 public:
  // Errors: those of unit_size.
  static Result<Runner> create(const Trace& trace, const ModelCosts& model, const LoadConfig& load);
  Runner(Runner&&) noexcept;
  ~Runner();

  UnitSize unit() const { return unit_; }

  // A system (replay/systems.h) on one order of the sessions. `settings` but for the number of
  // running requests, which is the load's. Errors: those of make_system and PathIndex::build.
  Result<ReplayResult> run(const std::string& system, const CacheSettings& settings, int order);

 private:
  struct Shared;  // what several threads may need first

  Runner(const Trace& trace, const ModelCosts& model, const LoadConfig& load, UnitSize unit);
  DriverConfig driver_config(int order) const;

  const Trace& trace_;
  const ModelCosts& model_;
  const LoadConfig load_;
  const UnitSize unit_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace stemma::replay
