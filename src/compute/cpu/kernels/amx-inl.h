// Panels of integer weights times 16 inputs at a time with AMX. Its tiles multiply the bytes of a run of columns, and the sums
// go through the same vector arithmetic as those of single dot products (panels-inl.h): sums of integers are exact, so the
// outputs are the same bits. Included once for each target by foreach_target.h, after panels-inl.h.
//
// A format that has tiles gives:
//   kAmxColumns: columns of a product of tiles, 32 or 64;
//   kAmxWeightBytes: bytes of an unpacked weight;
//   kAmxLeastInputs: with fewer, single dot products are faster, which need no unpacked weights;
//   unpack(panel, cols, begin, end, to): the weights of columns [begin, end) as signed bytes, a vector of quads for 4 columns;
//   add_tile(tiles, chunk): adds what a chunk of columns gives to the totals of 16 inputs.

// clang-format off
#if defined(STEMMA_KERNELS_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEMMA_KERNELS_AMX_INL_H_
#undef STEMMA_KERNELS_AMX_INL_H_
#else
#define STEMMA_KERNELS_AMX_INL_H_
#endif
// clang-format on

#include "compute/cpu/kernels/panels-inl.h"

// Processors with AMX run Highway's target with VNNI. Code that calls the functions below, and that they call, stands between
// STEMMA_BEFORE_AMX() and HWY_AFTER_NAMESPACE().
#undef STEMMA_AMX
#undef STEMMA_BEFORE_AMX
#if STEMMA_VNNI && HWY_ARCH_X86_64 && defined(__linux__)
#define STEMMA_AMX 1
#define STEMMA_BEFORE_AMX() \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni,amx-tile,amx-int8") static_assert(true, "")
#else
#define STEMMA_AMX 0
#define STEMMA_BEFORE_AMX() STEMMA_BEFORE_DOTS()
#endif

STEMMA_BEFORE_AMX();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

#if STEMMA_AMX

constexpr size_t kAmxInputs = 16;
// Fewer after others are left to single dot products: a tile takes as long for one input as for all.
constexpr size_t kAmxLeastRest = 10;
// Weights that are unpacked at a time: a part of the first cache.
constexpr size_t kAmxUnpackedBytes = 16384;

using AmxSums = int32_t[kAmxInputs][kPanelRows];

// The tiles' registers, shaped for kColumns columns of 16 inputs and of 16 rows.
template <size_t kColumns>
class AmxTiles {
 public:
  AmxTiles() { _tile_loadconfig(&kShapes); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  ~AmxTiles() { _tile_release(); }

  // sums[input][row] = the product of inputs, rows of kColumns bytes `stride` bytes apart, and weights, vectors of quads.
  HWY_INLINE void multiply(const std::byte* inputs, size_t stride, const std::byte* weights, AmxSums& sums) const {
    _tile_loadd(1, inputs, stride);
    _tile_loadd(2, weights, kQuadBytes);
    _tile_zero(0);
    _tile_dpbssd(0, 1, 2);
    _tile_stored(0, sums, sizeof(sums[0]));
  }

  // The same over `parts` runs of kColumns columns, for two bytes of each weight: for each run those of one kind, then those of
  // the other.
  HWY_INLINE void multiply_pairs(const std::byte* inputs, size_t stride, const std::byte* weights, size_t parts,
                                 AmxSums (&sums)[2]) const {
    constexpr size_t kBytes = kColumns * kPanelRows;
    _tile_zero(0);
    _tile_zero(3);
    for (size_t i = 0; i < parts; ++i, inputs += kColumns, weights += 2 * kBytes) {
      _tile_loadd(1, inputs, stride);
      _tile_loadd(2, weights, kQuadBytes);
      _tile_loadd(4, weights + kBytes, kQuadBytes);
      _tile_dpbssd(0, 1, 2);
      _tile_dpbssd(3, 1, 4);
    }
    _tile_stored(0, sums[0], sizeof(sums[0][0]));
    _tile_stored(3, sums[1], sizeof(sums[1][0]));
  }

 private:
  struct alignas(64) Shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  // Registers 0 to 6: sums, inputs, weights; more sums, more weights; two more for sums. In memory that nothing writes: the compiler
  // does not know that the processor reads it, and would leave out the writing.
  static constexpr Shapes kShapes = {
      1, 0, {},
      {4 * kPanelRows, kColumns, 4 * kPanelRows, 4 * kPanelRows, 4 * kPanelRows, 4 * kPanelRows, 4 * kPanelRows},
      {kAmxInputs, kAmxInputs, kColumns / 4, kAmxInputs, kColumns / 4, kAmxInputs, kAmxInputs}};
};

// The columns [begin, end) of a panel, unpacked, and 16 inputs from `first` on.
struct AmxChunk {
  const PanelProduct& product;
  size_t first;
  size_t begin, end;
  const std::byte* weights;

  size_t count() const { return HWY_MIN(kAmxInputs, product.count - first); }  // of inputs that there are

  // What the columns before `begin` gave. The outputs hold it meanwhile.
  HWY_INLINE void load_totals(Vec* totals) const {
    HWY_UNROLL(16)
    for (size_t t = 0; t < kAmxInputs; ++t) totals[t] = hn::Zero(Floats());
    if (begin == 0) return;
    HWY_UNROLL(16)
    for (size_t t = 0; t < kAmxInputs; ++t) {
      const float* out = product.out + (first + t) * product.out_stride;
      if (t < count()) totals[t] = product.rows == kPanelRows ? hn::LoadU(Floats(), out) : load_part(out, product.rows);
    }
  }
  HWY_INLINE void store_totals(const Vec* totals) const {
    HWY_UNROLL(16)
    for (size_t t = 0; t < kAmxInputs; ++t) {
      if (t < count()) store_output(totals[t], product, first + t);
    }
  }
};

template <class Format>
void multiply_panel_amx(const PanelProduct& product) {
  const size_t rest = product.count % kAmxInputs;
  const size_t count = product.count < Format::kAmxLeastInputs ? 0
                       : rest < kAmxLeastRest                  ? product.count - rest
                                                               : product.count;
  if (count > 0) {
    const AmxTiles<Format::kAmxColumns> tiles;
    alignas(64) std::byte weights[kAmxUnpackedBytes];
    constexpr size_t kChunk = kAmxUnpackedBytes / (kPanelRows * Format::kAmxWeightBytes);
    for (size_t begin = 0; begin < product.cols; begin += kChunk) {
      const size_t end = HWY_MIN(begin + kChunk, product.cols);
      Format::unpack(product.panel, product.cols, begin, end, weights);
      __asm__ volatile("" ::: "memory");  // the compiler does not know that tiles read memory
      for (size_t first = 0; first < count; first += kAmxInputs) {
        Format::add_tile(tiles, {product, first, begin, end, weights});
      }
    }
  }
  if (count < product.count) {
    PanelProduct others = product;
    others.inputs += count / kAmxInputs * product.group_stride;
    others.out += count * product.out_stride;
    others.count -= count;
    multiply_panel<Format>(others);
  }
}

#endif

// The function that multiplies a format's panels, on AMX if it can be used.
template <class Format>
auto multiply_function([[maybe_unused]] bool amx) {
#if STEMMA_AMX
  if (amx) return multiply_panel_amx<Format>;
#endif
  return multiply_panel<Format>;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#endif  // STEMMA_KERNELS_AMX_INL_H_
