#include "options/rules.h"

#include <algorithm>
#include <filesystem>

#include "options/option_table.h"

namespace stemma {

namespace {

constexpr std::size_t kLeastCacheMemory = std::size_t{64} << 20;
constexpr std::size_t kMostCacheMemory = std::size_t{64} << 30;

}  // namespace

std::optional<Decision> choose_alias(const Options& so_far, const Facts&) {
  const std::string name = std::filesystem::path(so_far.model_path).filename().string();
  const std::string stem = name.ends_with(".gguf") ? name.substr(0, name.size() - 5) : name;
  return Decision{stem, "the file's name"};
}

std::optional<Decision> choose_threads(const Options&, const Facts& facts) {
  return Decision{std::int64_t{facts.machine.cores}, "one for each core that this process may use"};
}

std::optional<Decision> choose_cache_memory(const Options&, const Facts& facts) {
  const std::size_t quarter = facts.machine.available_memory / 4;
  const std::size_t chosen = std::clamp(quarter, kLeastCacheMemory, kMostCacheMemory);
  std::string why = "a quarter of the " + display_bytes(static_cast<double>(facts.machine.available_memory)) +
                    " that are free";
  if (chosen > quarter) why = "the least that is useful";
  if (chosen < quarter) why = "less than " + why + "; ask for more if it pays";
  return Decision{static_cast<std::int64_t>(chosen), std::move(why)};
}

std::optional<Decision> choose_context_length(const Options& so_far, const Facts& facts) {
  if (!facts.model) return std::nullopt;
  const auto fits = [&](Depth context) {
    EngineConfig config = so_far.engine;
    config.context_length = context;
    return facts.model->fits(config);
  };
  const Depth trained = facts.model->context_length;
  if (fits(trained)) return Decision{std::int64_t{trained}, "the model's"};

  const int page_size = so_far.engine.page_size;
  Depth longest_that_fits = 0;  // in pages
  Depth shortest_that_does_not = (trained + page_size - 1) / page_size;
  while (shortest_that_does_not - longest_that_fits > 1) {
    const Depth middle = longest_that_fits + (shortest_that_does_not - longest_that_fits) / 2;
    (fits(middle * page_size) ? longest_that_fits : shortest_that_does_not) = middle;
  }
  // Nothing fits: the engine refuses the budget and says how much it takes.
  if (longest_that_fits == 0) return Decision{std::int64_t{trained}, "the model's"};
  return Decision{std::int64_t{longest_that_fits} * page_size,
                  "what " + display_bytes(static_cast<double>(so_far.engine.cache_bytes)) +
                      " of cache memory hold of the model's " + std::to_string(trained) +
                      "; --cache-memory takes more"};
}

}  // namespace stemma
