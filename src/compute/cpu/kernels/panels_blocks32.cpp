// A packed block is, for 32 columns and the panel's rows (R = panel rows, one vector = R quads of bytes):
//   8 bits: 8 vectors; vector g holds columns 4g to 4g + 3.
//   4 bits: 4 vectors; vector g holds columns 4g.. in the low nibbles, 16 + 4g.. in the high ones.
//   5 bits: 4 such vectors, then one whose bit g holds the fifth bits of columns 4g..
// The blocks come first, then R f16 scales a block, then (Q4_1, Q5_1) R f16 minima a block.

#include "compute/cpu/kernels/panels_blocks32.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/kernels/panels_blocks32.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/amx-inl.h"

STEMMA_BEFORE_AMX();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kBlockColumns = Blocks32Record::columns;

// w = scale * (bits - kOffset) [+ minimum]
template <int kBits, bool kMinimum, int kOffset>
struct Blocks32 {
  static constexpr size_t kVectors = kBits;  // of a block
  static constexpr size_t kFileHead = (kMinimum ? 4 : 2) + (kBits == 5 ? 4 : 0);
  static constexpr size_t kFileBlock = kFileHead + (kBits == 8 ? 32 : 16);
  static constexpr size_t kHalvesBytes = 2 * kPanelRows;  // of a block's scales
  static constexpr size_t kTile = kRegisters == 32 ? 12 : 4;

  struct Layout {
    size_t blocks;
    explicit Layout(size_t cols) : blocks(cols / kBlockColumns) {}
    size_t scales() const { return blocks * kVectors * kQuadBytes; }
    size_t minima() const { return scales() + blocks * kHalvesBytes; }
    size_t bytes() const { return whole_lines(minima() + (kMinimum ? blocks * kHalvesBytes : 0)); }
  };

  static size_t panel_bytes(size_t cols) { return Layout(cols).bytes(); }

  static void pack(const std::byte* source, size_t row_stride, size_t rows, size_t cols, std::byte* panel) {
    const Layout layout(cols);
    if (rows < kPanelRows) std::fill_n(panel, layout.bytes(), std::byte{0});
    for (size_t b = 0; b < layout.blocks; ++b) {
      std::byte* vectors = panel + b * kVectors * kQuadBytes;
      for (size_t r = 0; r < rows; ++r) {
        const std::byte* block = source + r * row_stride + b * kFileBlock;
        std::memcpy(panel + layout.scales() + b * kHalvesBytes + 2 * r, block, 2);
        if constexpr (kMinimum) std::memcpy(panel + layout.minima() + b * kHalvesBytes + 2 * r, block + 2, 2);
        pack_quants(block + kFileHead, vectors + 4 * r);
      }
    }
  }

  // `to` is the row's place in the block's first vector.
  static void pack_quants(const std::byte* quants, std::byte* to) {
    for (size_t g = 0; g < (kBits == 8 ? 8 : 4); ++g) {
      uint32_t quad;
      std::memcpy(&quad, quants + 4 * g, 4);
      if constexpr (kBits == 8 && kByteBias == 128) quad ^= 0x80808080u;
      std::memcpy(to + g * kQuadBytes, &quad, 4);
    }
    if constexpr (kBits == 5) {
      uint32_t high;
      std::memcpy(&high, quants - 4, 4);
      std::array<uint8_t, 4> bits{};
      for (size_t i = 0; i < kBlockColumns; ++i) bits[i % 4] |= static_cast<uint8_t>((high >> i & 1) << i / 4);
      std::memcpy(to + 4 * kQuadBytes, bits.data(), 4);
    }
  }

  // sums[t] += the products of a vector of quads of weights and quad kQuad of input t.
  template <size_t kN>
  static HWY_INLINE void add_quads(IntVec* sums, ByteVec weights, const InputTile<Blocks32Record, kN>& inputs, size_t quad) {
    HWY_UNROLL(16)
    for (size_t t = 0; t < kN; ++t) {
      const IntVec x = inputs.ints(t, Blocks32Record::quads + quad);
      if constexpr (kBits == 8) {
        sums[t] = dot4_biased(sums[t], weights, x);
      } else {
        sums[t] = dot4(sums[t], weights, x);
      }
    }
  }

  // Quads kGroup and kGroup + 4 of a block of nibbles, `high` its fifth bits.
  template <int kGroup>
  static HWY_INLINE void unpack_nibbles(const std::byte* vectors, ByteVec high, ByteVec& first, ByteVec& second) {
    const ByteVec both = load_bytes(vectors + kGroup * kQuadBytes);
    first = low_nibbles(both), second = high_nibbles(both);
    if constexpr (kBits == 5) {
      first = hn::Or(first, upper_bits<kGroup, 1>(high));
      second = hn::Or(second, upper_bits<kGroup + 4, 1>(high));
    }
  }

  template <size_t kN, int kGroup>
  static HWY_INLINE void add_nibbles(IntVec* sums, const std::byte* vectors, ByteVec high,
                                     const InputTile<Blocks32Record, kN>& inputs) {
    ByteVec first, second;
    unpack_nibbles<kGroup>(vectors, high, first, second);
    add_quads<kN>(sums, first, inputs, kGroup);
    add_quads<kN>(sums, second, inputs, kGroup + 4);
  }

  // Minus what the offset of the packed weights adds to a block's sum.
  template <size_t kN>
  static HWY_INLINE IntVec start(const InputTile<Blocks32Record, kN>& inputs, size_t t) {
    constexpr int kPackedOffset = kBits == 8 ? kByteBias : kOffset;
    if constexpr (kPackedOffset == 0) {
      return hn::Zero(Ints());
    } else if constexpr (kPackedOffset == 128) {
      return inputs.ints(t, Blocks32Record::start);
    } else {
      constexpr int kShift = kPackedOffset == 8 ? 3 : 4;
      static_assert(1 << kShift == kPackedOffset);
      return hn::Neg(hn::ShiftLeft<kShift>(inputs.ints(t, Blocks32Record::sum)));
    }
  }

  // Adds a block to the totals: its sums of weights (without their minimum) times inputs, scaled.
  template <size_t kN>
  static HWY_INLINE void add_block(Vec* totals, const IntVec* sums, const std::byte* scales, const std::byte* minima,
                                   const InputTile<Blocks32Record, kN>& inputs) {
    const Vec scale = load_halves(scales);
    HWY_UNROLL(16)
    for (size_t t = 0; t < kN; ++t) {
      const Vec factor = hn::Mul(scale, inputs.floats(t, Blocks32Record::scale));
      totals[t] = hn::MulAdd(hn::ConvertTo(Floats(), sums[t]), factor, totals[t]);
    }
    if constexpr (kMinimum) {
      const Vec minimum = load_halves(minima);
      HWY_UNROLL(16)
      for (size_t t = 0; t < kN; ++t) {
        totals[t] = hn::MulAdd(minimum, inputs.floats(t, Blocks32Record::scaled_sum), totals[t]);
      }
    }
  }

  template <size_t kN, bool kAhead>
  static HWY_NOINLINE void tile(const PanelProduct& product, size_t first) {
    const Floats d;
    const Layout layout(product.cols);
    InputTile<Blocks32Record, kN> inputs(product, first);
    const std::byte* vectors = product.panel;
    const std::byte* scales = product.panel + layout.scales();
    const std::byte* minima = product.panel + layout.minima();
    Prefetcher<kVectors * kQuadBytes + (kMinimum ? 2 : 1) * kHalvesBytes> ahead(product.panel);
    Vec totals[kN];
    HWY_UNROLL(16)
    for (size_t t = 0; t < kN; ++t) totals[t] = hn::Zero(d);
    for (size_t b = 0; b < layout.blocks; ++b) {
      if constexpr (kAhead) ahead.step();
      IntVec sums[kN];
      HWY_UNROLL(16)
      for (size_t t = 0; t < kN; ++t) sums[t] = start(inputs, t);
      if constexpr (kBits == 8) {
        HWY_UNROLL(8)
        for (size_t g = 0; g < 8; ++g) add_quads<kN>(sums, load_bytes(vectors + g * kQuadBytes), inputs, g);
      } else {
        ByteVec high = hn::Zero(Bytes());
        if constexpr (kBits == 5) high = load_bytes(vectors + 4 * kQuadBytes);
        add_nibbles<kN, 0>(sums, vectors, high, inputs);
        add_nibbles<kN, 1>(sums, vectors, high, inputs);
        add_nibbles<kN, 2>(sums, vectors, high, inputs);
        add_nibbles<kN, 3>(sums, vectors, high, inputs);
      }
      add_block<kN>(totals, sums, scales + b * kHalvesBytes, minima + b * kHalvesBytes, inputs);
      vectors += kVectors * kQuadBytes;
      inputs.next();
    }
    store_outputs<kN>(totals, product, first);
  }

#if STEMMA_AMX
  static constexpr size_t kAmxColumns = kBlockColumns;
  static constexpr size_t kAmxWeightBytes = 1;
  static constexpr size_t kAmxLeastInputs = kBits == 8 ? 48 : 16;

  static HWY_NOINLINE void unpack(const std::byte* panel, size_t, size_t begin, size_t end, std::byte* to) {
    const hn::Repartition<int8_t, Floats> bytes;
    const auto offset = hn::Set(bytes, kBits == 8 ? 0 : kOffset);
    const auto store = [&](size_t quad, ByteVec weights) HWY_ATTR {
      hn::Store(hn::Sub(hn::BitCast(bytes, weights), offset), bytes, reinterpret_cast<int8_t*>(to + quad * kQuadBytes));
    };
    const std::byte* vectors = panel + begin / kBlockColumns * kVectors * kQuadBytes;
    Prefetcher<kVectors * kQuadBytes + (kMinimum ? 2 : 1) * kHalvesBytes> ahead(vectors);
    for (size_t column = begin; column < end; column += kBlockColumns) {
      ahead.step();
      if constexpr (kBits == 8) {
        HWY_UNROLL(8)
        for (size_t g = 0; g < 8; ++g) {
          store(g, hn::Xor(load_bytes(vectors + g * kQuadBytes), hn::Set(Bytes(), kByteBias)));
        }
      } else {
        ByteVec high = hn::Zero(Bytes());
        if constexpr (kBits == 5) high = load_bytes(vectors + 4 * kQuadBytes);
        const auto unpack_group = [&](auto group) HWY_ATTR {
          ByteVec first, second;
          unpack_nibbles<group>(vectors, high, first, second);
          store(group, first);
          store(group + 4, second);
        };
        unpack_group(std::integral_constant<int, 0>());
        unpack_group(std::integral_constant<int, 1>());
        unpack_group(std::integral_constant<int, 2>());
        unpack_group(std::integral_constant<int, 3>());
      }
      vectors += kVectors * kQuadBytes;
      to += kBlockColumns * kPanelRows;
    }
  }

  static HWY_NOINLINE void add_tile(const AmxTiles<kAmxColumns>& tiles, const AmxChunk& chunk) {
    const Layout layout(chunk.product.cols);
    const size_t first_block = chunk.begin / kBlockColumns, blocks = (chunk.end - chunk.begin) / kBlockColumns;
    const std::byte* scales = chunk.product.panel + layout.scales() + first_block * kHalvesBytes;
    const std::byte* minima = chunk.product.panel + layout.minima() + first_block * kHalvesBytes;
    InputTile<Blocks32Record, kAmxInputs> inputs(chunk.product, chunk.first);
    inputs.next(first_block);
    alignas(64) AmxSums products[2];  // tiles multiply a block while vectors add the one before
    const auto multiply = [&](size_t b) HWY_ATTR {
      tiles.multiply(inputs.dword(0, Blocks32Record::quads), record_bytes<Blocks32Record>,
                     chunk.weights + b * kBlockColumns * kPanelRows, products[b % 2]);
    };
    Vec totals[kAmxInputs];
    chunk.load_totals(totals);
    multiply(0);
    for (size_t b = 0; b < blocks; ++b) {
      const InputTile<Blocks32Record, kAmxInputs> current = inputs;
      inputs.next();
      if (b + 1 < blocks) multiply(b + 1);
      IntVec sums[kAmxInputs];
      HWY_UNROLL(16)
      for (size_t t = 0; t < kAmxInputs; ++t) sums[t] = hn::Load(Ints(), products[b % 2][t]);
      add_block<kAmxInputs>(totals, sums, scales + b * kHalvesBytes, minima + b * kHalvesBytes, current);
    }
    chunk.store_totals(totals);
  }
#endif

  static PanelFormat format(bool amx) {
    return {.input = InputForm::blocks32,
            .panel_rows = kPanelRows,
            .panel_bytes = panel_bytes,
            .pack = pack,
            .multiply = multiply_function<Blocks32>(amx)};
  }
};

#else
template <int, bool, int>
using Blocks32 = NoPanels;
#endif

std::optional<PanelFormat> Q4_0(bool amx) { return Blocks32<4, false, 8>::format(amx); }
std::optional<PanelFormat> Q4_1(bool amx) { return Blocks32<4, true, 0>::format(amx); }
std::optional<PanelFormat> Q5_0(bool amx) { return Blocks32<5, false, 16>::format(amx); }
std::optional<PanelFormat> Q5_1(bool amx) { return Blocks32<5, true, 0>::format(amx); }
std::optional<PanelFormat> Q8_0(bool amx) { return Blocks32<8, false, 0>::format(amx); }

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(Q4_0);
HWY_EXPORT(Q4_1);
HWY_EXPORT(Q5_0);
HWY_EXPORT(Q5_1);
HWY_EXPORT(Q8_0);

std::optional<PanelFormat> panel_q4_0(bool amx) { return HWY_DYNAMIC_DISPATCH(Q4_0)(amx); }
std::optional<PanelFormat> panel_q4_1(bool amx) { return HWY_DYNAMIC_DISPATCH(Q4_1)(amx); }
std::optional<PanelFormat> panel_q5_0(bool amx) { return HWY_DYNAMIC_DISPATCH(Q5_0)(amx); }
std::optional<PanelFormat> panel_q5_1(bool amx) { return HWY_DYNAMIC_DISPATCH(Q5_1)(amx); }
std::optional<PanelFormat> panel_q8_0(bool amx) { return HWY_DYNAMIC_DISPATCH(Q8_0)(amx); }

}  // namespace stemma::kernels
#endif  // HWY_ONCE
