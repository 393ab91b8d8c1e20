// Products on ggml's vec_dot and from_float, called for one output at a time: then each output's order of
// accumulation is fixed by the row's length. This file alone sees ggml.

#include <algorithm>
#include <cstring>

#include "compute/cpu/memory.h"
#include "compute/cpu/products.h"
#include "compute/dtype.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace stemma {
namespace {

static_assert(static_cast<int>(DType::f32) == GGML_TYPE_F32 && static_cast<int>(DType::f16) == GGML_TYPE_F16);
static_assert(static_cast<int>(DType::q4_0) == GGML_TYPE_Q4_0 && static_cast<int>(DType::q4_1) == GGML_TYPE_Q4_1);
static_assert(static_cast<int>(DType::q5_0) == GGML_TYPE_Q5_0 && static_cast<int>(DType::q5_1) == GGML_TYPE_Q5_1);
static_assert(static_cast<int>(DType::q8_0) == GGML_TYPE_Q8_0 && static_cast<int>(DType::q8_1) == GGML_TYPE_Q8_1);
static_assert(static_cast<int>(DType::q2_k) == GGML_TYPE_Q2_K && static_cast<int>(DType::q3_k) == GGML_TYPE_Q3_K);
static_assert(static_cast<int>(DType::q4_k) == GGML_TYPE_Q4_K && static_cast<int>(DType::q5_k) == GGML_TYPE_Q5_K);
static_assert(static_cast<int>(DType::q6_k) == GGML_TYPE_Q6_K && static_cast<int>(DType::q8_k) == GGML_TYPE_Q8_K);
static_assert(static_cast<int>(DType::iq2_xxs) == GGML_TYPE_IQ2_XXS);
static_assert(static_cast<int>(DType::iq2_xs) == GGML_TYPE_IQ2_XS);
static_assert(static_cast<int>(DType::iq3_xxs) == GGML_TYPE_IQ3_XXS);
static_assert(static_cast<int>(DType::iq1_s) == GGML_TYPE_IQ1_S && static_cast<int>(DType::iq1_m) == GGML_TYPE_IQ1_M);
static_assert(static_cast<int>(DType::iq4_nl) == GGML_TYPE_IQ4_NL);
static_assert(static_cast<int>(DType::iq3_s) == GGML_TYPE_IQ3_S && static_cast<int>(DType::iq2_s) == GGML_TYPE_IQ2_S);
static_assert(static_cast<int>(DType::iq4_xs) == GGML_TYPE_IQ4_XS);
static_assert(static_cast<int>(DType::i8) == GGML_TYPE_I8 && static_cast<int>(DType::i16) == GGML_TYPE_I16);
static_assert(static_cast<int>(DType::i32) == GGML_TYPE_I32 && static_cast<int>(DType::i64) == GGML_TYPE_I64);
static_assert(static_cast<int>(DType::f64) == GGML_TYPE_F64 && static_cast<int>(DType::bf16) == GGML_TYPE_BF16);
static_assert(static_cast<int>(DType::tq1_0) == GGML_TYPE_TQ1_0 && static_cast<int>(DType::tq2_0) == GGML_TYPE_TQ2_0);
static_assert(static_cast<int>(DType::mxfp4) == GGML_TYPE_MXFP4 && static_cast<int>(DType::nvfp4) == GGML_TYPE_NVFP4);
static_assert(static_cast<int>(DType::q1_0) == GGML_TYPE_Q1_0 && static_cast<int>(DType::q2_0) == GGML_TYPE_Q2_0);

// Bytes of prepared inputs that are multiplied with a few weight rows before the next inputs come: they stay in the
// L2 cache while all weight rows of the call pass.
constexpr std::size_t kInputTileBytes = std::size_t{256} << 10;

// Input forms from here on are ggml's types; those before are kernels::InputForm's.
constexpr std::uint32_t kGgmlForms = 1 << 16;

ggml_type ggml_type_of(DType type) { return static_cast<ggml_type>(type); }

class GgmlProduct final : public Product {
 public:
  GgmlProduct(DType type, const ggml_type_traits_cpu& traits)
      : type_(type),
        dot_(traits.vec_dot),
        input_type_(static_cast<DType>(traits.vec_dot_type)),
        quantize_(ggml_get_type_traits_cpu(traits.vec_dot_type)->from_float) {}

  std::uint32_t input_form() const override { return kGgmlForms + static_cast<std::uint32_t>(input_type_); }

  std::size_t input_group() const override { return 1; }

  std::size_t prepared_bytes(std::int64_t cols) const override {
    return round_up(row_bytes(input_type_, cols), kCacheLine);
  }

  void prepare(const float* x, std::size_t, std::size_t, std::int64_t cols, std::byte* prepared) const override {
    quantize_(x, prepared, cols);
  }

  std::int64_t row_unit() const override { return 1; }
  std::size_t packed_bytes(std::int64_t, std::int64_t) const override { return 0; }
  void pack(const HostMatrix&, std::int64_t, std::int64_t, std::byte*) const override {}

  void multiply(const Weights& matrix, std::int64_t first, std::int64_t count, const Inputs& inputs,
                const Outputs& outputs) const override {
    const HostMatrix& weights = matrix.source;
    const int cols = static_cast<int>(weights.cols);
    const std::size_t weight_stride = row_bytes(type_, weights.cols);
    const std::size_t tile = std::max<std::size_t>(1, kInputTileBytes / inputs.stride);
    for (std::size_t begin = 0; begin < inputs.count; begin += tile) {
      const std::size_t end = std::min(begin + tile, inputs.count);
      for (std::int64_t row = first; row < first + count; ++row) {
        const std::byte* weight = weights.data + static_cast<std::size_t>(row) * weight_stride;
        for (std::size_t i = begin; i < end; ++i) {
          dot_(cols, outputs.data + i * outputs.stride + row, 0, weight, 0, inputs.data + i * inputs.stride, 0, 1);
        }
      }
    }
  }

 private:
  DType type_;
  ggml_vec_dot_t dot_;
  DType input_type_;
  ggml_from_float_t quantize_;
};

}  // namespace

void prepare_ggml() { ggml_cpu_init(); }

std::unique_ptr<Product> make_ggml_product(DType type) {
  const ggml_type_traits_cpu* traits = ggml_get_type_traits_cpu(ggml_type_of(type));
  if (traits->vec_dot == nullptr) return nullptr;
  return std::make_unique<GgmlProduct>(type, *traits);
}

bool unpack_elements(DType type, const std::byte* data, std::int64_t count, float* out) {
  if (type == DType::f32) {
    std::memcpy(out, data, static_cast<std::size_t>(count) * sizeof(float));
    return true;
  }
  const ggml_to_float_t to_float = ggml_get_type_traits(ggml_type_of(type))->to_float;
  if (to_float == nullptr) return false;
  to_float(data, out, count);
  return true;
}

std::string ggml_identity() {
  std::string identity = std::string("ggml-") + ggml_version();
  const struct {
    const char* name;
    int present;
  } features[] = {{"avx2", ggml_cpu_has_avx2()},       {"avx512", ggml_cpu_has_avx512()},
                  {"vnni", ggml_cpu_has_avx512_vnni()}, {"avx512_bf16", ggml_cpu_has_avx512_bf16()},
                  {"avxvnni", ggml_cpu_has_avx_vnni()}, {"neon", ggml_cpu_has_neon()},
                  {"dotprod", ggml_cpu_has_dotprod()},  {"i8mm", ggml_cpu_has_matmul_int8()},
                  {"sve", ggml_cpu_has_sve()}};
  for (const auto& feature : features) {
    if (feature.present != 0) identity += std::string("-") + feature.name;
  }
  return identity;
}

}  // namespace stemma
