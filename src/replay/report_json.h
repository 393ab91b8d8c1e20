#pragma once
// A sweep as JSON: everything that was set, and every number of every order.

#include <nlohmann/json_fwd.hpp>

#include "replay/sweep.h"

namespace stemma::replay {

nlohmann::json report_json(const SweepResult& sweep);

}  // namespace stemma::replay
