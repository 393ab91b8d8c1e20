#include "compute/cpu/kernels/panels.h"

#include "compute/cpu/kernels/panels_blocks256.h"
#include "compute/cpu/kernels/panels_blocks32.h"
#include "compute/cpu/kernels/panels_floats.h"

namespace stemma::kernels {

std::optional<PanelFormat> panel_format(DType type, bool amx) {
  switch (type) {
    case DType::f32: return panel_f32();
    case DType::f16: return panel_f16();
    case DType::bf16: return panel_bf16();
    case DType::q4_0: return panel_q4_0(amx);
    case DType::q4_1: return panel_q4_1(amx);
    case DType::q5_0: return panel_q5_0(amx);
    case DType::q5_1: return panel_q5_1(amx);
    case DType::q8_0: return panel_q8_0(amx);
    case DType::q4_k: return panel_q4_k(amx);
    case DType::q5_k: return panel_q5_k(amx);
    case DType::q6_k: return panel_q6_k(amx);
    default: return std::nullopt;
  }
}

}  // namespace stemma::kernels
