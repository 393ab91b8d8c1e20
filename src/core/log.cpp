#include "core/log.h"

#include <array>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace stemma {

namespace {
constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info", "warning", "error", "off"};
}  // namespace

std::span<const std::string_view> log_level_names() { return kLevels; }

void start_logging(std::string_view level) {
  auto logger = spdlog::stderr_color_mt("stemma");
  logger->set_pattern("%T.%e %^%-7l%$ %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace stemma
