#pragma once
// Packed formats of the types with blocks of 256: Q4_K, Q5_K, Q6_K. See kernels/panels.h;
// nullopt on machines without vectors.

#include "compute/cpu/kernels/panels.h"

namespace stemma::kernels {

std::optional<PanelFormat> panel_q4_k(bool amx);
std::optional<PanelFormat> panel_q5_k(bool amx);
std::optional<PanelFormat> panel_q6_k(bool amx);

}  // namespace stemma::kernels
