// A packed block is, for 256 columns and the panel's rows (R = panel rows, one vector = R quads of bytes), 8 runs of 32
// columns; of a run:
//   4 vectors: vector g holds the low 4 bits of columns 4g.. (low nibbles) and 16 + 4g.. (high nibbles);
//   Q5_K: 1 vector, bit g of a byte is the fifth bit of columns 4g..;
//   Q6_K: 2 vectors, bits 2g and 2g + 1 of a byte are the upper bits of columns 4g.. (and 16 + 4g.. in the second).
// Inside a block all sums are of integers, exact, whatever their order.
//
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
#include "compute/cpu/kernels/amx-inl.h"

STEMMA_BEFORE_AMX();
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
HWY_INLINE IntVec load_u8(const std::byte* p) {
  const hn::Rebind<uint8_t, Floats> narrow;
  return hn::PromoteTo(Ints(), hn::LoadU(narrow, reinterpret_cast<const uint8_t*>(p)));
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
HWY_INLINE void add_quads(IntVec* sums, ByteVec weights, const InputTile<Blocks256Record, kN>& inputs, size_t quad) {
  HWY_UNROLL(8)
  for (size_t t = 0; t < kN; ++t) sums[t] = dot4(sums[t], weights, inputs.ints(t, Blocks256Record::quads + quad));
}

#if STEMMA_AMX

constexpr size_t kAmxColumns256 = 64;

// A vector of quads of weights times their rows' scales, products in (-2^12, 2^12), in two bytes each: at `to` the lower kLowBits,
// and at `to` + kAmxColumns256 * kPanelRows what is left of it, divided by 2^kLowBits.
template <int kLowBits>
HWY_INLINE void store_scaled(ShortVec even, ShortVec odd, std::byte* to) {
  const hn::Repartition<int8_t, Floats> bytes;
  const auto interleave = [&](ShortVec first, ShortVec second) HWY_ATTR {
    const auto low = hn::And(first, hn::Set(Shorts(), 0xff));
    return hn::BitCast(bytes, hn::Or(low, hn::ShiftLeft<8>(second)));
  };
  const ShortVec mask = hn::Set(Shorts(), (1 << kLowBits) - 1);
  hn::Store(interleave(hn::And(even, mask), hn::And(odd, mask)), bytes, reinterpret_cast<int8_t*>(to));
  hn::Store(interleave(hn::ShiftRight<kLowBits>(even), hn::ShiftRight<kLowBits>(odd)), bytes,
            reinterpret_cast<int8_t*>(to + kAmxColumns256 * kPanelRows));
}

// AmxChunk's columns for formats of blocks of 256, unpacked by store_scaled<kLowBits>: their scaled products are added up within the
// tiles' registers, lower and upper parts of the weights apart.
template <class Format, int kLowBits>
HWY_INLINE void add_tile_of_blocks(const AmxTiles<kAmxColumns256>& tiles, const AmxChunk& chunk) {
  const size_t first_block = chunk.begin / kColumns256, blocks = (chunk.end - chunk.begin) / kColumns256;
  const std::byte* head = chunk.product.panel + chunk.product.cols / kColumns256 * Format::kBlockBytes +
                          first_block * Format::kHeadBytes;
  InputTile<Blocks256Record, kAmxInputs> inputs(chunk.product, chunk.first);
  inputs.next(first_block);
  alignas(64) AmxSums products[2][2];  // tiles multiply a block while vectors add the one before
  const auto multiply = [&](size_t b) HWY_ATTR {
    tiles.multiply_pairs(inputs.dword(0, Blocks256Record::quads), record_bytes<Blocks256Record>,
                         chunk.weights + b * 2 * kColumns256 * kPanelRows, kColumns256 / kAmxColumns256, products[b % 2]);
  };
  Vec totals[kAmxInputs];
  chunk.load_totals(totals);
  multiply(0);
  for (size_t b = 0; b < blocks; ++b) {
    const InputTile<Blocks256Record, kAmxInputs> current = inputs;
    inputs.next();
    if (b + 1 < blocks) multiply(b + 1);
    const auto add = [&](auto from) HWY_ATTR {
      constexpr size_t kFrom = from, kTo = kFrom + 4;
      IntVec sums[kTo];
      HWY_UNROLL(4)
      for (size_t t = kFrom; t < kTo; ++t) {
        const IntVec low = hn::Load(Ints(), products[b % 2][0][t]), high = hn::Load(Ints(), products[b % 2][1][t]);
        sums[t] = hn::Add(low, hn::ShiftLeft<kLowBits>(high));
      }
      Format::template add_block<kFrom, kTo>(totals, sums, head, current);
    };
    add(std::integral_constant<size_t, 0>());
    add(std::integral_constant<size_t, 4>());
    add(std::integral_constant<size_t, 8>());
    add(std::integral_constant<size_t, 12>());
    head += Format::kHeadBytes;
  }
  chunk.store_totals(totals);
}

#endif

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

  // Quads kGroup and kGroup + 4 of a run, `high` its fifth bits.
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
  static HWY_INLINE void add_nibbles(IntVec* sums, IntVec* more, const std::byte* vectors, ByteVec high,
                                     const InputTile<Blocks256Record, kN>& inputs) {
    ByteVec first, second;
    unpack_nibbles<kGroup>(vectors, high, first, second);
    add_quads<kN>(sums, first, inputs, kGroup);
    add_quads<kN>(more, second, inputs, kGroup + 4);
  }

  // Adds a block to the totals of inputs [kFrom, kTo): `sums` are its runs' products times their scales.
  template <size_t kFrom, size_t kTo, class Inputs>
  static HWY_INLINE void add_block(Vec* totals, const IntVec* sums, const std::byte* head, const Inputs& inputs) {
    const Floats d;
    IntVec least[kTo];
    HWY_UNROLL(8)
    for (size_t t = kFrom; t < kTo; ++t) least[t] = hn::Zero(Ints());
    HWY_UNROLL(4)
    for (size_t pair = 0; pair < kRuns / 2; ++pair) {
      const IntVec minima = load_pairs<uint8_t>(head + kMinimaAt + pair * 2 * kPanelRows);
      HWY_UNROLL(8)
      for (size_t t = kFrom; t < kTo; ++t) {
        least[t] = dot2(least[t], minima, inputs.ints(t, Blocks256Record::sums32 + pair));
      }
    }
    const Vec scale = load_halves(head + kScaleAt), minimum = load_halves(head + kMinimumAt);
    HWY_UNROLL(8)
    for (size_t t = kFrom; t < kTo; ++t) {
      const Vec value = hn::MulSub(hn::ConvertTo(d, sums[t]), scale, hn::Mul(hn::ConvertTo(d, least[t]), minimum));
      totals[t] = hn::MulAdd(value, inputs.floats(t, Blocks256Record::scale), totals[t]);
    }
  }

  template <size_t kN, bool kAhead>
  static HWY_NOINLINE void tile(const PanelProduct& product, size_t first) {
    const Floats d;
    const size_t blocks = product.cols / kColumns256;
    InputTile<Blocks256Record, kN> inputs(product, first);
    const std::byte* vectors = product.panel;
    const std::byte* head = product.panel + blocks * kBlockBytes;
    Prefetcher<(kBlockBytes + kHeadBytes) / kRuns> ahead(product.panel);
    Vec totals[kN];
    HWY_UNROLL(8)
    for (size_t t = 0; t < kN; ++t) totals[t] = hn::Zero(d);
    for (size_t b = 0; b < blocks; ++b) {
      IntVec block[kN];
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) block[t] = hn::Zero(Ints());
      InputTile<Blocks256Record, kN> columns = inputs;
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
        const IntVec scale = load_u8(head + run * kPanelRows);
        if constexpr (kTwoSums) {
          HWY_UNROLL(2)
          for (size_t t = 0; t < kN; ++t) sums[t] = hn::Add(sums[t], more[t]);
        }
        HWY_UNROLL(8)
        for (size_t t = 0; t < kN; ++t) block[t] = hn::Add(block[t], hn::Mul(sums[t], scale));
        vectors += kBits * kQuadBytes;
        columns.skip(kRunColumns / 4);
      }
      add_block<0, kN>(totals, block, head, inputs);
      head += kHeadBytes;
      inputs.next();
    }
    store_outputs<kN>(totals, product, first);
  }

#if STEMMA_AMX
  static constexpr size_t kAmxColumns = kAmxColumns256;
  static constexpr size_t kAmxWeightBytes = 2;
  static constexpr size_t kAmxLeastInputs = 16;
  static constexpr int kLowBits = 5;

  static HWY_NOINLINE void unpack(const std::byte* panel, size_t cols, size_t begin, size_t end, std::byte* to) {
    const std::byte* vectors = panel + begin / kRunColumns * kBits * kQuadBytes;
    const std::byte* head = panel + cols / kColumns256 * kBlockBytes + begin / kColumns256 * kHeadBytes;
    Prefetcher<(kBlockBytes + kHeadBytes) / kRuns> ahead(vectors);
    for (size_t block = begin; block < end; block += kColumns256, head += kHeadBytes) {
      for (size_t run = 0; run < kRuns; ++run) {
        ahead.step();
        const IntVec scale = load_u8(head + run * kPanelRows);
        const ShortVec scales = hn::BitCast(Shorts(), hn::Or(scale, hn::ShiftLeft<16>(scale)));
        std::byte* quads = to + run / 2 * 2 * kAmxColumns * kPanelRows + run % 2 * kRunColumns * kPanelRows;
        const auto store = [&](size_t quad, ByteVec weights) HWY_ATTR {
          const ShortVec pairs = hn::BitCast(Shorts(), weights);
          const ShortVec even = hn::And(pairs, hn::Set(Shorts(), 0xff)), odd = hn::ShiftRight<8>(pairs);
          store_scaled<kLowBits>(hn::Mul(even, scales), hn::Mul(odd, scales), quads + quad * kQuadBytes);
        };
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
        vectors += kBits * kQuadBytes;
      }
      to += 2 * kColumns256 * kPanelRows;
    }
  }

  static HWY_NOINLINE void add_tile(const AmxTiles<kAmxColumns>& tiles, const AmxChunk& chunk) {
    add_tile_of_blocks<QK, kLowBits>(tiles, chunk);
  }
#endif

  static PanelFormat format(bool amx) {
    return {.input = InputForm::blocks256,
            .panel_rows = kPanelRows,
            .panel_bytes = panel_bytes,
            .pack = pack,
            .multiply = multiply_function<QK>(amx)};
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

  // Quad kGroup of a half run.
  template <int kGroup>
  static HWY_INLINE ByteVec unpack_quad(const std::byte* vectors, ByteVec upper, bool second) {
    const ByteVec both = load_bytes(vectors + kGroup * kQuadBytes);
    const ByteVec low = second ? high_nibbles(both) : low_nibbles(both);
    return hn::Or(low, upper_bits<2 * kGroup, 2>(upper));
  }

  template <size_t kN, int kGroup>
  static HWY_INLINE void add_half(IntVec* sums, const std::byte* vectors, ByteVec upper, bool second,
                                  const InputTile<Blocks256Record, kN>& inputs) {
    add_quads<kN>(sums, unpack_quad<kGroup>(vectors, upper, second), inputs, kGroup + (second ? 4 : 0));
  }

  // Of one half of a run, from the pairs of both.
  static HWY_INLINE IntVec scale_of(IntVec pair, size_t half) {
    return hn::ShiftRight<16>(half == 0 ? hn::ShiftLeft<16>(pair) : pair);
  }

  // Sums of half runs' products times their scales, from those of weights that were 32 too great.
  template <size_t kN, class Inputs>
  static HWY_INLINE void take_off_offset(IntVec* sums, const std::byte* head, const Inputs& inputs) {
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
    HWY_UNROLL(8)
    for (size_t t = 0; t < kN; ++t) sums[t] = hn::Sub(sums[t], hn::ShiftLeft<5>(offset[t]));
  }

  // Adds a block to the totals of inputs [kFrom, kTo): `sums` are its half runs' products times their scales.
  template <size_t kFrom, size_t kTo, class Inputs>
  static HWY_INLINE void add_block(Vec* totals, const IntVec* sums, const std::byte* head, const Inputs& inputs) {
    const Vec scale = load_halves(head + kScaleAt);
    HWY_UNROLL(8)
    for (size_t t = kFrom; t < kTo; ++t) {
      const Vec product = hn::Mul(hn::ConvertTo(Floats(), sums[t]), scale);
      totals[t] = hn::MulAdd(product, inputs.floats(t, Blocks256Record::scale), totals[t]);
    }
  }

  template <size_t kN, bool kAhead>
  static HWY_NOINLINE void tile(const PanelProduct& product, size_t first) {
    const Floats d;
    const size_t blocks = product.cols / kColumns256;
    InputTile<Blocks256Record, kN> inputs(product, first);
    const std::byte* vectors = product.panel;
    const std::byte* head = product.panel + blocks * kBlockBytes;
    Prefetcher<(kBlockBytes + kHeadBytes) / kRuns> ahead(product.panel);
    Vec totals[kN];
    HWY_UNROLL(8)
    for (size_t t = 0; t < kN; ++t) totals[t] = hn::Zero(d);
    for (size_t b = 0; b < blocks; ++b) {
      IntVec block[kN];
      HWY_UNROLL(8)
      for (size_t t = 0; t < kN; ++t) block[t] = hn::Zero(Ints());
      InputTile<Blocks256Record, kN> columns = inputs;
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
          const IntVec scale = scale_of(pair, half);
          HWY_UNROLL(8)
          for (size_t t = 0; t < kN; ++t) block[t] = hn::Add(block[t], hn::Mul(sums[t], scale));
        }
        vectors += 6 * kQuadBytes;
        columns.skip(kRunColumns / 4);
      }
      take_off_offset<kN>(block, head, inputs);
      add_block<0, kN>(totals, block, head, inputs);
      head += kHeadBytes;
      inputs.next();
    }
    store_outputs<kN>(totals, product, first);
  }

#if STEMMA_AMX
  static constexpr size_t kAmxColumns = kAmxColumns256;
  static constexpr size_t kAmxWeightBytes = 2;
  static constexpr size_t kAmxLeastInputs = 16;
  static constexpr int kLowBits = 6;

  static HWY_NOINLINE void unpack(const std::byte* panel, size_t cols, size_t begin, size_t end, std::byte* to) {
    const std::byte* vectors = panel + begin / kRunColumns * 6 * kQuadBytes;
    const std::byte* head = panel + cols / kColumns256 * kBlockBytes + begin / kColumns256 * kHeadBytes;
    Prefetcher<(kBlockBytes + kHeadBytes) / kRuns> ahead(vectors);
    for (size_t block = begin; block < end; block += kColumns256, head += kHeadBytes) {
      for (size_t run = 0; run < kRuns; ++run) {
        ahead.step();
        const IntVec pair = load_pairs<int8_t>(head + run * 2 * kPanelRows);
        HWY_UNROLL(2)
        for (size_t half = 0; half < 2; ++half) {
          const IntVec scale = scale_of(pair, half);
          const ShortVec scales = hn::BitCast(Shorts(), hn::Or(hn::And(scale, hn::Set(Ints(), 0xffff)), hn::ShiftLeft<16>(scale)));
          const ByteVec upper = load_bytes(vectors + (4 + half) * kQuadBytes);
          std::byte* quads = to + run / 2 * 2 * kAmxColumns * kPanelRows + (run % 2 * 2 + half) * (kRunColumns / 2) * kPanelRows;
          const auto unpack_group = [&](auto group) HWY_ATTR {
            const ShortVec pairs = hn::BitCast(Shorts(), unpack_quad<group>(vectors, upper, half == 1));
            const ShortVec offset = hn::Set(Shorts(), 32);
            const ShortVec even = hn::Sub(hn::And(pairs, hn::Set(Shorts(), 0xff)), offset);
            const ShortVec odd = hn::Sub(hn::ShiftRight<8>(pairs), offset);
            store_scaled<kLowBits>(hn::Mul(even, scales), hn::Mul(odd, scales), quads + group * kQuadBytes);
          };
          unpack_group(std::integral_constant<int, 0>());
          unpack_group(std::integral_constant<int, 1>());
          unpack_group(std::integral_constant<int, 2>());
          unpack_group(std::integral_constant<int, 3>());
        }
        vectors += 6 * kQuadBytes;
      }
      to += 2 * kColumns256 * kPanelRows;
    }
  }

  static HWY_NOINLINE void add_tile(const AmxTiles<kAmxColumns>& tiles, const AmxChunk& chunk) {
    add_tile_of_blocks<Q6K, kLowBits>(tiles, chunk);
  }
#endif

  static PanelFormat format(bool amx) {
    return {.input = InputForm::blocks256,
            .panel_rows = kPanelRows,
            .panel_bytes = panel_bytes,
            .pack = pack,
            .multiply = multiply_function<Q6K>(amx)};
  }
};

#else
template <int>
using QK = NoPanels;
using Q6K = NoPanels;
#endif

std::optional<PanelFormat> Q4_K(bool amx) { return QK<4>::format(amx); }
std::optional<PanelFormat> Q5_K(bool amx) { return QK<5>::format(amx); }
std::optional<PanelFormat> Q6_K(bool amx) { return Q6K::format(amx); }

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(Q4_K);
HWY_EXPORT(Q5_K);
HWY_EXPORT(Q6_K);

std::optional<PanelFormat> panel_q4_k(bool amx) { return HWY_DYNAMIC_DISPATCH(Q4_K)(amx); }
std::optional<PanelFormat> panel_q5_k(bool amx) { return HWY_DYNAMIC_DISPATCH(Q5_K)(amx); }
std::optional<PanelFormat> panel_q6_k(bool amx) { return HWY_DYNAMIC_DISPATCH(Q6_K)(amx); }

}  // namespace stemma::kernels
#endif  // HWY_ONCE
