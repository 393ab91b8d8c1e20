#pragma once
// A sweep as tables for a terminal.

#include <string>

#include "replay/sweep.h"

namespace stemma::replay {

// What was run, then two tables a budget: what was reused, and what it cost.
std::string report_text(const SweepResult& sweep);

}  // namespace stemma::replay
