// A packed panel holds column after column, one element a row. Products are summed in f32: runs of kRun columns in order,
// and the runs' sums in order.

#include "compute/cpu/kernels/panels_floats.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/kernels/panels_floats.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/panels-inl.h"

STEMMA_BEFORE_DOTS();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kRun = 64;

struct F32 {
  using Element = float;
  static constexpr InputForm kInput = InputForm::f32;
  static HWY_INLINE Vec load(const std::byte* p) { return hn::Load(Floats(), reinterpret_cast<const float*>(p)); }
};

struct F16 {
  using Element = uint16_t;
  static constexpr InputForm kInput = InputForm::f16;
  static HWY_INLINE Vec load(const std::byte* p) { return load_halves(p); }
};

struct Bf16 {
  using Element = uint16_t;
  static constexpr InputForm kInput = InputForm::bf16;
  static HWY_INLINE Vec load(const std::byte* p) {
    const hn::RebindToUnsigned<Floats> wide;
    const hn::Rebind<uint16_t, Floats> narrow;
    const auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(p)));
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(bits));
  }
};

template <class Kind>
struct FloatPanels {
  static constexpr size_t kTile = kRegisters == 32 ? 12 : 4;
  static constexpr size_t kElement = sizeof(typename Kind::Element);
  static constexpr size_t kColumnBytes = kElement * kPanelRows;

  static size_t panel_bytes(size_t cols) { return whole_lines(cols * kColumnBytes); }

  static void pack(const std::byte* source, size_t row_stride, size_t rows, size_t cols, std::byte* panel) {
    if (rows < kPanelRows) std::fill_n(panel, panel_bytes(cols), std::byte{0});
    for (size_t column = 0; column < cols; ++column) {
      for (size_t r = 0; r < rows; ++r) {
        std::memcpy(panel + column * kColumnBytes + r * kElement, source + r * row_stride + column * kElement, kElement);
      }
    }
  }

  template <size_t kN, bool kAhead>
  static HWY_NOINLINE void tile(const PanelProduct& product, size_t first) {
    const Floats d;
    InputTile<FloatRecord, kN> inputs(product, first);
    const std::byte* weights = product.panel;
    Prefetcher<kColumnBytes> ahead(product.panel);
    Vec totals[kN];
    HWY_UNROLL(16)
    for (size_t t = 0; t < kN; ++t) totals[t] = hn::Zero(d);
    for (size_t begin = 0; begin < product.cols; begin += kRun) {
      const size_t end = HWY_MIN(begin + kRun, product.cols);
      Vec sums[kN];
      HWY_UNROLL(16)
      for (size_t t = 0; t < kN; ++t) sums[t] = hn::Zero(d);
      for (size_t column = begin; column < end; ++column) {
        if constexpr (kAhead) ahead.step();
        const Vec w = Kind::load(weights);
        HWY_UNROLL(16)
        for (size_t t = 0; t < kN; ++t) sums[t] = hn::MulAdd(w, inputs.floats(t, FloatRecord::value), sums[t]);
        weights += kColumnBytes;
        inputs.next();
      }
      HWY_UNROLL(16)
      for (size_t t = 0; t < kN; ++t) totals[t] = hn::Add(totals[t], sums[t]);
    }
    store_outputs<kN>(totals, product, first);
  }

  static PanelFormat format() {
    return {.input = Kind::kInput,
            .panel_rows = kPanelRows,
            .panel_bytes = panel_bytes,
            .pack = pack,
            .multiply = multiply_panel<FloatPanels>};
  }
};

#else
template <class>
using FloatPanels = NoPanels;
struct F32;
struct F16;
struct Bf16;
#endif

std::optional<PanelFormat> PanelF32() { return FloatPanels<F32>::format(); }
std::optional<PanelFormat> PanelF16() { return FloatPanels<F16>::format(); }
std::optional<PanelFormat> PanelBf16() { return FloatPanels<Bf16>::format(); }

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(PanelF32);
HWY_EXPORT(PanelF16);
HWY_EXPORT(PanelBf16);

std::optional<PanelFormat> panel_f32() { return HWY_DYNAMIC_DISPATCH(PanelF32)(); }
std::optional<PanelFormat> panel_f16() { return HWY_DYNAMIC_DISPATCH(PanelF16)(); }
std::optional<PanelFormat> panel_bf16() { return HWY_DYNAMIC_DISPATCH(PanelBf16)(); }

}  // namespace stemma::kernels
#endif  // HWY_ONCE
