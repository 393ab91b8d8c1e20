#include "replay/systems.h"

#include <algorithm>
#include <limits>

#include "replay/real_cache.h"

namespace stemma::replay {

namespace {

// Room for every unit of the trace, and no states: as if there were one at each depth.
Result<std::unique_ptr<CacheModel>> make_infinite(const Trace& trace, UnitSize unit) {
  const double ratio = static_cast<double>(trace.block_tokens) / unit.tokens;
  const double units =
      trace.block_count * ratio + static_cast<double>(trace.requests.size()) * 2 * unit.page_units;
  CacheConfig config;
  config.page_size = unit.page_units;
  config.page_count = static_cast<std::uint32_t>(std::min(
      units * 2 / unit.page_units + 4096, std::numeric_limits<std::uint32_t>::max() - 1.0));
  config.row_count = 0;
  config.wait_threshold = unit.units(config.wait_threshold);
  return make_real_cache(config);
}

}  // namespace

Result<std::unique_ptr<CacheModel>> make_system(const std::string& name, const Trace& trace,
                                                const ModelCosts& model, CacheSettings settings,
                                                UnitSize unit) {
  if (name == "infinite") return make_infinite(trace, unit);
  settings.eviction = name;
  STEMMA_TRY(const CacheConfig config, make_cache_config(model, settings, unit));
  return make_real_cache(config);
}

}  // namespace stemma::replay
