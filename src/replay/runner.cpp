#include "replay/runner.h"

#include <map>

#include "replay/systems.h"

namespace stemma::replay {

// The first who needs a thing makes it, and the others wait for it.
struct Runner::Shared {
  std::once_flag index_once;
  std::optional<Result<PathIndex>> index;

  struct OrderFuture {
    std::once_flag once;
    std::optional<Result<Future>> future;
  };
  std::mutex mutex;                    // guards the map, not what is in it
  std::map<int, OrderFuture> futures;  // by order
};

Runner::Runner(const Trace& trace, const ModelCosts& model, const LoadConfig& load, UnitSize unit)
    : trace_(trace), model_(model), load_(load), unit_(unit), shared_(std::make_unique<Shared>()) {}
Runner::Runner(Runner&&) noexcept = default;
Runner::~Runner() = default;

Result<Runner> Runner::create(const Trace& trace, const ModelCosts& model, const LoadConfig& load) {
  STEMMA_TRY(const UnitSize unit,
             unit_size(trace, load.unit_tokens == 0 ? trace.block_tokens : load.unit_tokens));
  return Runner(trace, model, load, unit);
}

DriverConfig Runner::driver_config(int order) const {
  DriverConfig config;
  config.unit = unit_;
  config.profile = load_.profile;
  config.concurrency = load_.concurrency;
  config.chunk_tokens = load_.chunk_tokens;
  if (load_.shuffle) config.shuffle = load_.seed + static_cast<std::uint64_t>(order);
  return config;
}

Result<ReplayResult> Runner::run(const std::string& system, const CacheSettings& settings,
                                 int order) {
  SystemInput input{trace_, model_, unit_, settings, nullptr, nullptr};
  input.settings.running = load_.concurrency;
  if (needs_index(system)) {
    std::call_once(shared_->index_once, [&] { shared_->index = PathIndex::build(trace_, unit_); });
    if (!*shared_->index) return tl::unexpected<Error>(shared_->index->error());
    input.index = &**shared_->index;
  }
  if (needs_future(system)) {
    Shared::OrderFuture* of_order = nullptr;
    {
      const std::scoped_lock lock(shared_->mutex);
      of_order = &shared_->futures[order];
    }
    std::call_once(of_order->once, [&] {
      of_order->future = Future::foresee(trace_, *input.index, model_, driver_config(order));
    });
    if (!*of_order->future) return tl::unexpected<Error>(of_order->future->error());
    input.future = &**of_order->future;
  }
  STEMMA_TRY(const auto cache, make_system(system, input));
  return replay(trace_, driver_config(order), model_, *cache);
}

}  // namespace stemma::replay
