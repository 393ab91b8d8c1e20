// A packed block is, for 256 columns and the panel's rows (R = panel rows, one vector = R quads of bytes), 8 runs of 32
// columns; of a run:
//   4 vectors: vector g holds the low 4 bits of columns 4g.. (low nibbles) and 16 + 4g.. (high nibbles);
//   Q5_K: 1 vector, bit g of a byte is the fifth bit of columns 4g..;
//   Q6_K: 2 vectors, bits 2g and 2g + 1 of a byte are the upper bits of columns 4g.. (and 16 + 4g.. in the second).
// The blocks come first. Then, a block:
//   Q4_K, Q5_K: R scales of each run (u8), R minima of each run as pairs of runs (u8), R f16 scales, R f16 minima;
//   Q6_K: R scales of each half run as pairs of halves (i8), R f16 scales.

#include "compute/cpu/kernels/panels_blocks256.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/kernels/panels_blocks256.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/panels-inl.h"

STEMMA_BEFORE_DOTS();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

constexpr size_t kColumns256 = Blocks256Record::columns;
constexpr size_t kRuns = 8;
constexpr size_t kRunColumns = 32;
constexpr size_t kTile256 = kRegisters == 32 ? 8 : 4;

// The bits of one row's block, column by column.
using Quants = std::array<uint8_t, kColumns256>;

// R bytes, one a lane.
HWY_INLINE Vec load_u8_as_floats(const std::byte* p) {
  const hn::Rebind<uint8_t, Floats> narrow;
  return hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), hn::LoadU(narrow, reinterpret_cast<const uint8_t*>(p))));
}

// R pairs of bytes as pairs of i16.
template <class Byte>
HWY_INLINE IntVec load_pairs(const std::byte* p) {
  const hn::Rebind<Byte, Shorts> narrow;
  return hn::BitCast(Ints(), hn::PromoteTo(Shorts(), hn::LoadU(narrow, reinterpret_cast<const Byte*>(p))));
}

// Packs the low nibbles and, with kBits above 4, the upper bits of a row; `to` is the row's place in the block.
template <int kBits>
void pack_quants(const Quants& q, std::byte* to) {
  constexpr size_t kRunVectors = kBits;
  for (size_t run = 0; run < kRuns; ++run) {
    const uint8_t* x = q.data() + run * kRunColumns;
    std::byte* vectors = to + run * kRunVectors * kQuadBytes;
    for (size_t g = 0; g < 4; ++g) {
      for (size_t i = 0; i < 4; ++i) {
        const uint8_t low = x[4 * g + i] & 15, high = x[16 + 4 * g + i] & 15;
        vectors[g * kQuadBytes + i] = static_cast<std::byte>(low | high << 4);
      }
    }
    for (size_t i = 0; i < 4; ++i) {
      unsigned bits = 0, first = 0, second = 0;
      for (size_t g = 0; g < 8; ++g) bits |= static_cast<unsigned>(x[4 * g + i] >> 4 & 1) << g;
      for (size_t g = 0; g < 4; ++g) {
        first |= static_cast<unsigned>(x[4 * g + i] >> 4) << 2 * g;
        second |= static_cast<unsigned>(x[16 + 4 * g + i] >> 4) << 2 * g;
      }
      if constexpr (kBits == 5) vectors[4 * kQuadBytes + i] = static_cast<std::byte>(bits);
      if constexpr (kBits == 6) {
        vectors[4 * kQuadBytes + i] = static_cast<std::byte>(first);
        vectors[5 * kQuadBytes + i] = static_cast<std::byte>(second);
      }
    }
  }
}

template <size_t kN>
HWY_INLINE void add_quads(IntVec* sums, ByteVec weights, const InputTile<kN>& inputs, size_t quad) {
  HWY_UNROLL(8)
  for (size_t t = 0; t < kN; ++t) sums[t] = dot4(sums[t], weights, inputs.ints(t, Blocks256Record::quads + quad));
}

// w = scale * run_scale * bits - minimum * run_minimum
template <int kBits>
struct QK {
  static constexpr size_t kTile = kTile256;
  static constexpr size_t kFileHigh = kBits == 5 ? 32 : 0;
  static constexpr size_t kFileBlock = 16 + kFileHigh + 128;
  static constexpr size_t kBlockBytes = kRuns * kBits * kQuadBytes;
  static constexpr size_t kMinimaAt = kRuns * kPanelRows;        // from the block's scales
  static constexpr size_t kScaleAt = 2 * kRuns * kPanelRows;
  static constexpr size_t kMinimumAt = kScaleAt + 2 * kPanelRows;
  static constexpr size_t kHeadBytes = kMinimumAt + 2 * kPanelRows;

  static size_t panel_bytes(size_t cols) {
    return whole_lines(cols / kColumns256 * (kBlockBytes + kHeadBytes));
  }

  static void pack(const std::byte* source, size_t row_stride, size_t rows, size_t cols, std::byte* panel) {
    const size_t blocks = cols / kColumns256;
    std::byte* heads = panel + blocks * kBlockBytes;
    if (rows < kPanelRows) std::fill_n(panel, panel_bytes(cols), std::byte{0});
    for (size_t b = 0; b < blocks; ++b) {
      std::byte* head = heads + b * kHeadBytes;
      for (size_t r = 0; r < rows; ++r) {
        // The file's block: f16 scale, f16 minimum, 8 scales and 8 minima of 6 bits in 12 bytes, (fifth bits,) nibbles.
        const std::byte* block = source + r * row_stride + b * kFileBlock;
        std::memcpy(head + kScaleAt + 2 * r, block, 2);
        std::memcpy(head + kMinimumAt + 2 * r, block + 2, 2);
        const uint8_t* six = reinterpret_cast<const uint8_t*>(block + 4);
        for (size_t run = 0; run < kRuns; ++run) {
          const unsigned scale = run < 4 ? six[run] & 63u : (six[run + 4] & 15u) | (six[run - 4] >> 6 << 4);
          const unsigned minimum = run < 4 ? six[run + 4] & 63u : (six[run + 4] >> 4) | (six[run] >> 6 << 4);
          head[run * kPanelRows + r] = static_cast<std::byte>(scale);
          head[kMinimaAt + run / 2 * 2 * kPanelRows + 2 * r + run % 2] = static_cast<std::byte>(minimum);
        }
        Quants q;
        const uint8_t* high = six + 12;
        const uint8_t* nibbles = high + kFileHigh;
        for (size_t run = 0; run < kRuns; ++run) {
          for (size_t i = 0; i < kRunColumns; ++i) {
            unsigned bits = nibbles[run / 2 * 32 + i] >> (run % 2 * 4) & 15u;
            if constexpr (kBits == 5) bits |= (high[i] >> run & 1u) << 4;
            q[run * kRunColumns + i] = static_cast<uint8_t>(bits);
          }
        }
        pack_quants<kBits>(q, panel + b * kBlockBytes + 4 * r);
      }
    }
  }

  template <size_t kN, int kGroup>
  static HWY_INLINE void add_nibbles(IntVec* sums, IntVec* more, const std::byte* vectors, ByteVec high,
                                     const InputTile<kN>& inputs) {
    const ByteVec both = load_bytes(vectors + kGroup * kQuadBytes);
    ByteVec first = low_nibbles(both), second = high_nibbles(both);
    if constexpr (kBits == 5) {
      first = hn::Or(first, upper_bits<kGroup, 1>(high));
      second = hn::Or(second, upper_bits<kGroup + 4, 1>(high));
    }
    add_quads<kN>(sums, first, inputs, kGroup);
    add_quads<kN>(more, second, inputs, kGroup + 4);
  }

  template <size_t kN, bool kAhead>
  static HWY_NOINLINE void tile(const PanelProduct& product, size_t first) {
    const Floats d;
    const size_t blocks = product.cols / kColumns256;
    InputTile<kN> inputs(product, first);
    const std::byte* vectors = product.panel;
    const std::byte* head = product.panel + blocks * kBlockBytes;
    Prefetcher<(kBlockBytes + kHeadBytes) / kRuns> ahead(product.panel);
    Vec totals[kN];
    HWY_UNROLL(8)
    for (size_t t = 0; t < kN; ++t) totals[t] = hn::Zero(d);
    for (size_t b = 0; b < blocks; ++b) {
      Vec block[kN];
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) block[t] = hn::Zero(d);
      InputTile<kN> columns = inputs;
      for (size_t run = 0; run < kRuns; ++run) {
        if constexpr (kAhead) ahead.step();
        // Few inputs wait for each sum's last term: two sums an input, of integers, whose order does not matter.
        constexpr bool kTwoSums = kN <= 2;
        IntVec sums[kTwoSums ? 2 * kN : kN];
        IntVec* const more = kTwoSums ? sums + kN : sums;
        HWY_UNROLL(8)
        for (size_t t = 0; t < kN; ++t) sums[t] = more[t] = hn::Zero(Ints());
        ByteVec high = hn::Zero(Bytes());
        if constexpr (kBits == 5) high = load_bytes(vectors + 4 * kQuadBytes);
        add_nibbles<kN, 0>(sums, more, vectors, high, columns);
        add_nibbles<kN, 1>(sums, more, vectors, high, columns);
        add_nibbles<kN, 2>(sums, more, vectors, high, columns);
        add_nibbles<kN, 3>(sums, more, vectors, high, columns);
        const Vec scale = load_u8_as_floats(head + run * kPanelRows);
        if constexpr (kTwoSums) {
          HWY_UNROLL(2)
          for (size_t t = 0; t < kN; ++t) sums[t] = hn::Add(sums[t], more[t]);
        }
        HWY_UNROLL(8)
        for (size_t t = 0; t < kN; ++t) block[t] = hn::MulAdd(hn::ConvertTo(d, sums[t]), scale, block[t]);
        vectors += kBits * kQuadBytes;
        columns.advance(kRunColumns / 4);
      }
      IntVec least[kN];
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) least[t] = hn::Zero(Ints());
      HWY_UNROLL(4)
      for (size_t pair = 0; pair < kRuns / 2; ++pair) {
        const IntVec minima = load_pairs<uint8_t>(head + kMinimaAt + pair * 2 * kPanelRows);
        HWY_UNROLL(8)
        for (size_t t = 0; t < kN; ++t) {
          least[t] = dot2(least[t], minima, inputs.ints(t, Blocks256Record::sums32 + pair));
        }
      }
      const Vec scale = load_halves(head + kScaleAt), minimum = load_halves(head + kMinimumAt);
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) {
        const Vec value = hn::MulSub(block[t], scale, hn::Mul(hn::ConvertTo(d, least[t]), minimum));
        totals[t] = hn::MulAdd(value, inputs.floats(t, Blocks256Record::scale), totals[t]);
      }
      head += kHeadBytes;
      inputs.advance(Blocks256Record::dwords);
    }
    store_outputs<kN>(totals, product, first);
  }

  static PanelFormat format() {
    return {.input = InputForm::blocks256,
            .panel_rows = kPanelRows,
            .panel_bytes = panel_bytes,
            .pack = pack,
            .multiply = multiply_panel<QK>};
  }
};

// w = scale * half_run_scale * (bits - 32)
struct Q6K {
  static constexpr size_t kTile = kTile256;
  static constexpr size_t kFileBlock = 210;
  static constexpr size_t kBlockBytes = kRuns * 6 * kQuadBytes;
  static constexpr size_t kHalves = 2 * kRuns;
  static constexpr size_t kScaleAt = kHalves * kPanelRows;
  static constexpr size_t kHeadBytes = kScaleAt + 2 * kPanelRows;

  static size_t panel_bytes(size_t cols) {
    return whole_lines(cols / kColumns256 * (kBlockBytes + kHeadBytes));
  }

  static void pack(const std::byte* source, size_t row_stride, size_t rows, size_t cols, std::byte* panel) {
    const size_t blocks = cols / kColumns256;
    std::byte* heads = panel + blocks * kBlockBytes;
    if (rows < kPanelRows) std::fill_n(panel, panel_bytes(cols), std::byte{0});
    for (size_t b = 0; b < blocks; ++b) {
      std::byte* head = heads + b * kHeadBytes;
      for (size_t r = 0; r < rows; ++r) {
        // The file's block: low nibbles, upper pairs of bits, 16 i8 scales, f16 scale.
        const std::byte* block = source + r * row_stride + b * kFileBlock;
        const uint8_t* nibbles = reinterpret_cast<const uint8_t*>(block);
        const uint8_t* upper = nibbles + 128;
        for (size_t i = 0; i < kHalves; ++i) head[i / 2 * 2 * kPanelRows + 2 * r + i % 2] = block[192 + i];
        std::memcpy(head + kScaleAt + 2 * r, block + 208, 2);
        Quants q;
        for (size_t column = 0; column < kColumns256; ++column) {
          const size_t half = column / 128, quarter = column % 128 / 32, i = column % 32;
          const unsigned low = nibbles[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15u;
          const unsigned high = upper[half * 32 + i] >> (2 * quarter) & 3u;
          q[column] = static_cast<uint8_t>(low | high << 4);
        }
        pack_quants<6>(q, panel + b * kBlockBytes + 4 * r);
      }
    }
  }

  template <size_t kN, int kGroup>
  static HWY_INLINE void add_half(IntVec* sums, const std::byte* vectors, ByteVec upper, bool second,
                                  const InputTile<kN>& inputs) {
    const ByteVec both = load_bytes(vectors + kGroup * kQuadBytes);
    const ByteVec low = second ? high_nibbles(both) : low_nibbles(both);
    add_quads<kN>(sums, hn::Or(low, upper_bits<2 * kGroup, 2>(upper)), inputs, kGroup + (second ? 4 : 0));
  }

  template <size_t kN, bool kAhead>
  static HWY_NOINLINE void tile(const PanelProduct& product, size_t first) {
    const Floats d;
    const size_t blocks = product.cols / kColumns256;
    InputTile<kN> inputs(product, first);
    const std::byte* vectors = product.panel;
    const std::byte* head = product.panel + blocks * kBlockBytes;
    Prefetcher<(kBlockBytes + kHeadBytes) / kRuns> ahead(product.panel);
    Vec totals[kN];
    HWY_UNROLL(8)
    for (size_t t = 0; t < kN; ++t) totals[t] = hn::Zero(d);
    for (size_t b = 0; b < blocks; ++b) {
      Vec block[kN];
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) block[t] = hn::Zero(d);
      InputTile<kN> columns = inputs;
      for (size_t run = 0; run < kRuns; ++run) {
        if constexpr (kAhead) ahead.step();
        const IntVec pair = load_pairs<int8_t>(head + run * 2 * kPanelRows);
        HWY_UNROLL(2)
        for (size_t half = 0; half < 2; ++half) {
          IntVec sums[kN];
          HWY_UNROLL(8)
          for (size_t t = 0; t < kN; ++t) sums[t] = hn::Zero(Ints());
          const ByteVec upper = load_bytes(vectors + (4 + half) * kQuadBytes);
          add_half<kN, 0>(sums, vectors, upper, half == 1, columns);
          add_half<kN, 1>(sums, vectors, upper, half == 1, columns);
          add_half<kN, 2>(sums, vectors, upper, half == 1, columns);
          add_half<kN, 3>(sums, vectors, upper, half == 1, columns);
          const IntVec left = half == 0 ? hn::ShiftLeft<16>(pair) : pair;
          const Vec scale = hn::ConvertTo(d, hn::ShiftRight<16>(left));
          HWY_UNROLL(8)
          for (size_t t = 0; t < kN; ++t) block[t] = hn::MulAdd(hn::ConvertTo(d, sums[t]), scale, block[t]);
        }
        vectors += 6 * kQuadBytes;
        columns.advance(kRunColumns / 4);
      }
      IntVec offset[kN];
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) offset[t] = hn::Zero(Ints());
      for (size_t run = 0; run < kRuns; ++run) {
        const IntVec pair = load_pairs<int8_t>(head + run * 2 * kPanelRows);
        HWY_UNROLL(8)
        for (size_t t = 0; t < kN; ++t) {
          offset[t] = dot2(offset[t], pair, inputs.ints(t, Blocks256Record::sums16 + run));
        }
      }
      const Vec scale = load_halves(head + kScaleAt);
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) {
        const Vec sum = hn::Sub(block[t], hn::ConvertTo(d, hn::ShiftLeft<5>(offset[t])));
        totals[t] = hn::MulAdd(hn::Mul(sum, scale), inputs.floats(t, Blocks256Record::scale), totals[t]);
      }
      head += kHeadBytes;
      inputs.advance(Blocks256Record::dwords);
    }
    store_outputs<kN>(totals, product, first);
  }

  static PanelFormat format() {
    return {.input = InputForm::blocks256,
            .panel_rows = kPanelRows,
            .panel_bytes = panel_bytes,
            .pack = pack,
            .multiply = multiply_panel<Q6K>};
  }
};

#else
template <int>
using QK = NoPanels;
using Q6K = NoPanels;
#endif

std::optional<PanelFormat> Q4_K() { return QK<4>::format(); }
std::optional<PanelFormat> Q5_K() { return QK<5>::format(); }
std::optional<PanelFormat> Q6_K() { return Q6K::format(); }

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(Q4_K);
HWY_EXPORT(Q5_K);
HWY_EXPORT(Q6_K);

std::optional<PanelFormat> panel_q4_k() { return HWY_DYNAMIC_DISPATCH(Q4_K)(); }
std::optional<PanelFormat> panel_q5_k() { return HWY_DYNAMIC_DISPATCH(Q5_K)(); }
std::optional<PanelFormat> panel_q6_k() { return HWY_DYNAMIC_DISPATCH(Q6_K)(); }

}  // namespace stemma::kernels
#endif  // HWY_ONCE
