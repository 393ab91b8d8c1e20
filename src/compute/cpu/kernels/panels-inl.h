// What the formats of packed weights share: cutting inputs into tiles, loading scales, storing outputs. Included once for
// each target by foreach_target.h.

// clang-format off
#if defined(STEMMA_KERNELS_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEMMA_KERNELS_PANELS_INL_H_
#undef STEMMA_KERNELS_PANELS_INL_H_
#else
#define STEMMA_KERNELS_PANELS_INL_H_
#endif
// clang-format on

#include "compute/cpu/kernels/dots-inl.h"
#include "compute/cpu/kernels/panels.h"
#include "compute/cpu/kernels/prepared_layout.h"

STEMMA_BEFORE_DOTS();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kPanelRows = kLanes;

HWY_INLINE constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

// One f16 a lane.
HWY_INLINE Vec load_halves(const std::byte* p) {
  return hn::PromoteTo(Floats(), hn::LoadU(Halves(), reinterpret_cast<const hwy::float16_t*>(p)));
}

HWY_INLINE ByteVec load_bytes(const std::byte* p) {
  return hn::Load(Bytes(), reinterpret_cast<const uint8_t*>(p));
}

HWY_INLINE ByteVec low_nibbles(ByteVec v) { return hn::And(v, hn::Set(Bytes(), 0x0f)); }
HWY_INLINE ByteVec high_nibbles(ByteVec v) {
  const hn::Repartition<uint16_t, Bytes> pairs;
  return low_nibbles(hn::BitCast(Bytes(), hn::ShiftRight<4>(hn::BitCast(pairs, v))));
}

// Bits kShift to kShift + kCount of each byte of v, moved to bit 4.
template <int kShift, int kCount>
HWY_INLINE ByteVec upper_bits(ByteVec v) {
  const hn::Repartition<uint16_t, Bytes> pairs;
  const auto h = hn::BitCast(pairs, v);
  ByteVec moved = v;
  if constexpr (kShift < 4) moved = hn::BitCast(Bytes(), hn::ShiftLeft<4 - kShift>(h));
  if constexpr (kShift > 4) moved = hn::BitCast(Bytes(), hn::ShiftRight<kShift - 4>(h));
  return hn::And(moved, hn::Set(Bytes(), kCount == 1 ? 0x10 : 0x30));
}

// Asks for weights ahead, across the ends of panels and of the machine's pages, where the hardware's prefetcher stops: in the
// order in which they lie, however they are read, kStepBytes a step, the blocks' heads counted in. Far ahead into the second
// cache, which waits for more lines at once than the first, and then near ahead into the first.
template <size_t kStepBytes>
class Prefetcher {
 public:
  explicit HWY_INLINE Prefetcher(const std::byte* panel) : at_(panel) {}
  HWY_INLINE void step() {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kStepBytes; i += kLine) {
      __builtin_prefetch(at_ + kFar + i, 0, 2);
      __builtin_prefetch(at_ + kNear + i, 0, 3);
    }
    at_ += kStepBytes;
  }

 private:
  static constexpr size_t kFar = 16384, kNear = 2048;
  static constexpr size_t kLine = 64;
  const std::byte* at_;
};

// kN neighbouring inputs, read record by record. A tile of fewer than a group lies within one.
template <size_t kN>
class InputTile {
 public:
  HWY_INLINE InputTile(const PanelProduct& product, size_t first) {
    HWY_UNROLL(4)
    for (size_t g = 0; g < kGroups; ++g) {
      groups_[g] = product.inputs + (first / kInputGroup + g) * product.group_stride + first % kInputGroup * 4;
    }
  }

  // Dword `at` of the current record of input t.
  HWY_INLINE const std::byte* dword(size_t t, size_t at) const {
    return groups_[t / kInputGroup] + at * kGroupDword + t % kInputGroup * 4;
  }
  // The same in every lane.
  HWY_INLINE IntVec ints(size_t t, size_t at) const { return quad_everywhere(dword(t, at)); }
  HWY_INLINE Vec floats(size_t t, size_t at) const { return hn::BitCast(Floats(), ints(t, at)); }

  HWY_INLINE void advance(size_t dwords) {
    HWY_UNROLL(4)
    for (size_t g = 0; g < kGroups; ++g) groups_[g] += dwords * kGroupDword;
  }

 private:
  static constexpr size_t kGroups = (kN + kInputGroup - 1) / kInputGroup;
  const std::byte* groups_[kGroups];
};

template <size_t kN>
HWY_INLINE void store_outputs(const Vec* totals, const PanelProduct& product, size_t first) {
  float* out = product.out + first * product.out_stride;
  HWY_UNROLL(16)
  for (size_t t = 0; t < kN; ++t, out += product.out_stride) {
    if (product.rows == kPanelRows) {
      hn::StoreU(totals[t], Floats(), out);
    } else {
      store_part(totals[t], out, product.rows);
    }
  }
}

// Calls Format::tile<N, ahead>(product, first input) until all inputs are covered. A tile's inputs share each loaded weight;
// the largest tile fills the registers. Weights are asked for ahead by a panel's first tile, which alone waits for memory,
// and by smaller ones, of which there are few.
template <class Format>
void multiply_panel(const PanelProduct& product) {
  static_assert(Format::kTile % kInputGroup == 0);
  size_t i = 0;
  if (product.count >= Format::kTile) {
    Format::template tile<Format::kTile, true>(product, 0);
    for (i = Format::kTile; i + Format::kTile <= product.count; i += Format::kTile) {
      Format::template tile<Format::kTile, false>(product, i);
    }
  }
  if constexpr (Format::kTile > 8) {
    if (i + 8 <= product.count) {
      Format::template tile<8, true>(product, i);
      i += 8;
    }
  }
  if constexpr (Format::kTile > 4) {
    if (i + 4 <= product.count) {
      Format::template tile<4, true>(product, i);
      i += 4;
    }
  }
  switch (product.count - i) {
    case 3: return Format::template tile<3, true>(product, i);
    case 2: return Format::template tile<2, true>(product, i);
    case 1: return Format::template tile<1, true>(product, i);
    default: return;
  }
}

#else

// Stands for a format's kernels where there are no vectors.
struct NoPanels {
  static std::optional<PanelFormat> format() { return std::nullopt; }
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#endif  // STEMMA_KERNELS_PANELS_INL_H_
