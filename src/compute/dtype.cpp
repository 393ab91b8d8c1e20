#include "compute/dtype.h"

#include <algorithm>

namespace stemma {
namespace {

constexpr TypeInfo kTypes[] = {
    {DType::f32, "F32", 1, 4, true},
    {DType::f16, "F16", 1, 2, true},
    {DType::q4_0, "Q4_0", 32, 18, true},
    {DType::q4_1, "Q4_1", 32, 20, true},
    {DType::q5_0, "Q5_0", 32, 22, true},
    {DType::q5_1, "Q5_1", 32, 24, true},
    {DType::q8_0, "Q8_0", 32, 34, true},
    {DType::q8_1, "Q8_1", 32, 36, false},
    {DType::q2_k, "Q2_K", 256, 84, true},
    {DType::q3_k, "Q3_K", 256, 110, true},
    {DType::q4_k, "Q4_K", 256, 144, true},
    {DType::q5_k, "Q5_K", 256, 176, true},
    {DType::q6_k, "Q6_K", 256, 210, true},
    {DType::q8_k, "Q8_K", 256, 292, false},
    {DType::iq2_xxs, "IQ2_XXS", 256, 66, true},
    {DType::iq2_xs, "IQ2_XS", 256, 74, true},
    {DType::iq3_xxs, "IQ3_XXS", 256, 98, true},
    {DType::iq1_s, "IQ1_S", 256, 50, true},
    {DType::iq4_nl, "IQ4_NL", 32, 18, true},
    {DType::iq3_s, "IQ3_S", 256, 110, true},
    {DType::iq2_s, "IQ2_S", 256, 82, true},
    {DType::iq4_xs, "IQ4_XS", 256, 136, true},
    {DType::i8, "I8", 1, 1, false},
    {DType::i16, "I16", 1, 2, false},
    {DType::i32, "I32", 1, 4, false},
    {DType::i64, "I64", 1, 8, false},
    {DType::f64, "F64", 1, 8, false},
    {DType::iq1_m, "IQ1_M", 256, 56, true},
    {DType::bf16, "BF16", 1, 2, true},
    {DType::tq1_0, "TQ1_0", 256, 54, true},
    {DType::tq2_0, "TQ2_0", 256, 66, true},
    {DType::mxfp4, "MXFP4", 32, 17, true},
    {DType::nvfp4, "NVFP4", 64, 36, true},
    {DType::q1_0, "Q1_0", 128, 18, true},
    {DType::q2_0, "Q2_0", 64, 18, true},
};

static_assert(std::ranges::is_sorted(kTypes, {}, &TypeInfo::type));

}  // namespace

std::span<const TypeInfo> all_types() { return kTypes; }

const TypeInfo* find_type(std::uint32_t gguf_number) {
  const DType type{gguf_number};
  const TypeInfo* found = std::ranges::lower_bound(kTypes, type, {}, &TypeInfo::type);
  return found != std::end(kTypes) && found->type == type ? found : nullptr;
}

const TypeInfo& type_info(DType type) { return *find_type(static_cast<std::uint32_t>(type)); }

std::size_t row_bytes(DType type, std::int64_t cols) {
  const TypeInfo& info = type_info(type);
  return static_cast<std::size_t>(cols / info.block) * info.block_bytes;
}

}  // namespace stemma
