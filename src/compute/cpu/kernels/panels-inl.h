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

// kN neighbouring inputs, read record by record. They begin at a multiple of four, and four that do lie in one group; a whole
// group begins where a group does.
template <class Record, size_t kN>
class InputTile {
 public:
  HWY_INLINE InputTile(const PanelProduct& product, size_t first) {
    HWY_UNROLL(4)
    for (size_t i = 0; i < kAddresses; ++i, first += kShare) {
      records_[i] = product.inputs + first / Record::group * product.group_stride + first % Record::group * record_bytes<Record>;
    }
  }

  // Dword `at` of the current record of input t.
  HWY_INLINE const std::byte* dword(size_t t, size_t at) const {
    return records_[t / kShare] + t % kShare * record_bytes<Record> + at * 4;
  }
  // The same in every lane.
  HWY_INLINE IntVec ints(size_t t, size_t at) const { return quad_everywhere(dword(t, at)); }
  HWY_INLINE Vec floats(size_t t, size_t at) const { return hn::BitCast(Floats(), ints(t, at)); }

  // To a place further on in the record.
  HWY_INLINE void skip(size_t dwords) { move(dwords * 4); }
  // To the next block's record, or over so many.
  HWY_INLINE void next(size_t blocks = 1) { move(blocks * group_record_bytes<Record>); }

 private:
  static_assert(Record::group % 4 == 0);
  static constexpr size_t kShare = kN == Record::group ? kN : 4;  // inputs that share an address
  static constexpr size_t kAddresses = (kN + kShare - 1) / kShare;

  HWY_INLINE void move(size_t bytes) {
    HWY_UNROLL(4)
    for (size_t i = 0; i < kAddresses; ++i) records_[i] += bytes;
  }

  const std::byte* records_[kAddresses];
};

HWY_INLINE void store_output(Vec total, const PanelProduct& product, size_t input) {
  float* out = product.out + input * product.out_stride;
  if (product.rows == kPanelRows) {
    hn::StoreU(total, Floats(), out);
  } else {
    store_part(total, out, product.rows);
  }
}

template <size_t kN>
HWY_INLINE void store_outputs(const Vec* totals, const PanelProduct& product, size_t first) {
  HWY_UNROLL(16)
  for (size_t t = 0; t < kN; ++t) store_output(totals[t], product, first + t);
}

// Calls Format::tile<N, ahead>(product, first input) until all inputs are covered. A tile's inputs share each loaded weight;
// the largest tile fills the registers. Weights are asked for ahead by a panel's first tile, which alone waits for memory,
// and by smaller ones, of which there are few.
template <class Format>
void multiply_panel(const PanelProduct& product) {
  static_assert(Format::kTile % 4 == 0);
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
  static std::optional<PanelFormat> format(bool = false) { return std::nullopt; }
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#endif  // STEMMA_KERNELS_PANELS_INL_H_
