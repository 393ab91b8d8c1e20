#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <string>

namespace stemma {

void start_logging(std::string_view level) {
  auto logger = spdlog::stderr_color_mt("stemma");
  logger->set_pattern("%T.%e %^%-7l%$ %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace stemma
