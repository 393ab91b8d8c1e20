#pragma once
// What the server tells about itself: /v1/models, /server_info, /metrics.

#include <string>

#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "server/live_connections.h"
#include "server/server.h"
#include "server/server_metrics.h"

namespace stemma {

// OpenAI's list of the one model, with llama-server's `meta`. `created`: seconds since 1970.
nlohmann::ordered_json models_json(const ServerParts& parts, const std::string& alias, std::int64_t created);

// The model, the options, how memory is split, and the engine's and cache's state and counters.
nlohmann::ordered_json server_info_json(const ServerParts& parts, const std::string& alias,
                                        const LiveConnections& live, const ServerMetrics& metrics);

// Prometheus text.
std::string metrics_text(const EngineStats& stats, const LiveConnections& live, const ServerMetrics& metrics);

}  // namespace stemma
