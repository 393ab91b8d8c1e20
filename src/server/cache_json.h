#pragma once
// What answers tell about the cache: a request's report ("cache_report": true) and POST
// /v1/cache/explain.

#include <nlohmann/json.hpp>

#include "engine/engine.h"

namespace stemma {

// Of one choice: {"matched", "usable", "reused", "reason", "advice", "waited_for", "checkpoints"}.
nlohmann::ordered_json cache_report_json(const GenerationResult& result);

nlohmann::ordered_json explanation_json(const Explanation& explanation);

}  // namespace stemma
