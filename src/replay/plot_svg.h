#pragma once
// A sweep as a picture: hits against memory, a line for each system.

#include <string>

#include "replay/sweep.h"

namespace stemma::replay {

// An SVG document. Memory is on a logarithmic axis; whiskers are one standard error of the mean
// over the orders; the dashed line is the infinite cache.
std::string plot_svg(const SweepResult& sweep);

}  // namespace stemma::replay
