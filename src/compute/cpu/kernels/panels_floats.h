#pragma once
// Packed formats of the types without blocks: F32, F16, BF16. See kernels/panels.h;
// nullopt on machines without vectors.

#include "compute/cpu/kernels/panels.h"

namespace stemma::kernels {

std::optional<PanelFormat> panel_f32();
std::optional<PanelFormat> panel_f16();
std::optional<PanelFormat> panel_bf16();

}  // namespace stemma::kernels
