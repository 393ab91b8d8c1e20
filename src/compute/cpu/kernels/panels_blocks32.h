#pragma once
// Packed formats of the types with blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. See kernels/panels.h;
// nullopt on machines without vectors.

#include "compute/cpu/kernels/panels.h"

namespace stemma::kernels {

std::optional<PanelFormat> panel_q4_0(bool amx);
std::optional<PanelFormat> panel_q4_1(bool amx);
std::optional<PanelFormat> panel_q5_0(bool amx);
std::optional<PanelFormat> panel_q5_1(bool amx);
std::optional<PanelFormat> panel_q8_0(bool amx);

}  // namespace stemma::kernels
