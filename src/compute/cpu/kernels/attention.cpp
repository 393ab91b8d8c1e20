#include "compute/cpu/kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cpu/kernels/attention.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h:
#include "compute/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stemma {
namespace kernels {
namespace HWY_NAMESPACE {

// Depths whose K or V rows are unpacked to f32 at a time: they stay in the L1 cache while all queries use them.
constexpr size_t kBlock = 16;
constexpr size_t kQueries = 4;                           // queries that share a loaded vector
constexpr size_t kColumns = kRegisters == 32 ? 4 : 2;    // vectors of V, or rows of K, beside them in registers

HWY_INLINE constexpr size_t padded(size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The row's elements as f32, padded with zeros to whole vectors.
HWY_INLINE void unpack_row(const KvRows& rows, size_t depth, float* out) {
  const Floats d;
  const std::byte* row = rows.row(depth);
  size_t i = 0;
  if (rows.half) {
    const Halves dh;
    const hwy::float16_t* x = reinterpret_cast<const hwy::float16_t*>(row);
    for (; i + kLanes <= rows.size; i += kLanes) hn::Store(hn::PromoteTo(d, hn::LoadU(dh, x + i)), d, out + i);
    if (i < rows.size) {
      HWY_ALIGN hwy::float16_t part[kLanes] = {};
      std::memcpy(part, x + i, (rows.size - i) * sizeof(hwy::float16_t));
      hn::Store(hn::PromoteTo(d, hn::Load(dh, part)), d, out + i);
    }
  } else {
    const float* x = reinterpret_cast<const float*>(row);
    for (; i + kLanes <= rows.size; i += kLanes) hn::Store(hn::LoadU(d, x + i), d, out + i);
    if (i < rows.size) hn::Store(load_part(x + i, rows.size - i), d, out + i);
  }
}

// scores[a * kStretch + b] = scale * q_a.k_b for kQ queries and kK rows of K. Each product is one running vector from
// the first columns to the last.
template <size_t kQ, size_t kK>
HWY_INLINE void scores_tile(const float* q, const float* k, size_t size, float scale, float* scores) {
  const Floats d;
  Vec sums[kQ][kK];
  HWY_UNROLL(4)
  for (size_t a = 0; a < kQ; ++a) {
    HWY_UNROLL(4)
    for (size_t b = 0; b < kK; ++b) sums[a][b] = hn::Zero(d);
  }
  for (size_t i = 0; i < size; i += kLanes) {
    Vec ks[kK];
    HWY_UNROLL(4)
    for (size_t b = 0; b < kK; ++b) ks[b] = hn::Load(d, k + b * size + i);
    HWY_UNROLL(4)
    for (size_t a = 0; a < kQ; ++a) {
      const Vec qa = hn::Load(d, q + a * size + i);
      HWY_UNROLL(4)
      for (size_t b = 0; b < kK; ++b) sums[a][b] = hn::MulAdd(qa, ks[b], sums[a][b]);
    }
  }
  HWY_UNROLL(4)
  for (size_t a = 0; a < kQ; ++a) {
    HWY_UNROLL(4)
    for (size_t b = 0; b < kK; ++b) scores[a * kStretch + b] = sum_of_lanes(sums[a][b]) * scale;
  }
}

// Scores of all queries against the kBlock rows of K at `k`.
HWY_INLINE void scores_block(const float* q, size_t queries, const float* k, size_t size, float scale,
                             float* scores) {
  static_assert(kBlock % kColumns == 0);
  size_t a = 0;
  for (; a + kQueries <= queries; a += kQueries) {
    for (size_t b = 0; b < kBlock; b += kColumns) {
      scores_tile<kQueries, kColumns>(q + a * size, k + b * size, size, scale, scores + a * kStretch + b);
    }
  }
  for (; a < queries; ++a) {
    for (size_t b = 0; b < kBlock; b += kColumns) {
      scores_tile<1, kColumns>(q + a * size, k + b * size, size, scale, scores + a * kStretch + b);
    }
  }
}

// Turns the first `count` scores into weights exp(score - max); returns max and the sum of the weights.
HWY_INLINE void softmax_stretch(float* scores, size_t count, float* max_out, float* sum_out) {
  const Floats d;
  const size_t full = count / kLanes * kLanes;
  Vec greatest = hn::Set(d, scores[0]);
  for (size_t i = 0; i < full; i += kLanes) greatest = hn::Max(greatest, hn::Load(d, scores + i));
  float max = hn::GetLane(hn::MaxOfLanes(d, greatest));
  for (size_t i = full; i < count; ++i) max = HWY_MAX(max, scores[i]);
  const Vec m = hn::Set(d, max);
  Vec sum = hn::Zero(d);
  for (size_t i = 0; i < full; i += kLanes) {
    const Vec weight = HWY_NAMESPACE::exp(hn::Sub(hn::Load(d, scores + i), m));
    hn::Store(weight, d, scores + i);
    sum = hn::Add(sum, weight);
  }
  if (full < count) {
    const Vec seen = hn::VecFromMask(d, hn::FirstN(d, count - full));
    const Vec weight = hn::And(seen, HWY_NAMESPACE::exp(hn::Sub(hn::Load(d, scores + full), m)));
    hn::Store(weight, d, scores + full);
    sum = hn::Add(sum, weight);
  }
  *max_out = max;
  *sum_out = sum_of_lanes(sum);
}

// o_a += sum over the rows b of V, in order, of weights[a][b] * v_b, for kQ queries and kN vectors of columns.
template <size_t kQ, size_t kN>
HWY_INLINE void weighted_tile(const float* weights, const float* v, size_t size, size_t rows, float* o,
                              size_t o_stride) {
  const Floats d;
  Vec sums[kQ][kN];
  HWY_UNROLL(4)
  for (size_t a = 0; a < kQ; ++a) {
    HWY_UNROLL(4)
    for (size_t n = 0; n < kN; ++n) sums[a][n] = hn::Load(d, o + a * o_stride + n * kLanes);
  }
  for (size_t b = 0; b < rows; ++b) {
    Vec vs[kN];
    HWY_UNROLL(4)
    for (size_t n = 0; n < kN; ++n) vs[n] = hn::Load(d, v + b * size + n * kLanes);
    HWY_UNROLL(4)
    for (size_t a = 0; a < kQ; ++a) {
      const Vec weight = hn::Set(d, weights[a * kStretch + b]);
      HWY_UNROLL(4)
      for (size_t n = 0; n < kN; ++n) sums[a][n] = hn::MulAdd(weight, vs[n], sums[a][n]);
    }
  }
  HWY_UNROLL(4)
  for (size_t a = 0; a < kQ; ++a) {
    HWY_UNROLL(4)
    for (size_t n = 0; n < kN; ++n) hn::Store(sums[a][n], d, o + a * o_stride + n * kLanes);
  }
}

template <size_t kQ>
HWY_INLINE void weighted_rows(const float* weights, const float* v, size_t size, size_t rows, float* o,
                              size_t o_stride) {
  size_t i = 0;
  for (; i + kColumns * kLanes <= size; i += kColumns * kLanes) {
    weighted_tile<kQ, kColumns>(weights, v + i, size, rows, o + i, o_stride);
  }
  for (; i < size; i += kLanes) weighted_tile<kQ, 1>(weights, v + i, size, rows, o + i, o_stride);
}

void AttendStretch(const AttentionTile& tile, size_t stretch, float* scratch, float* partials) {
  const size_t begin = stretch * kStretch;
  // Queries of the first `hidden` tokens lie before the stretch.
  const size_t hidden = begin > tile.first_depth ? HWY_MIN(begin - tile.first_depth, tile.tokens) : 0;
  const size_t tokens = tile.tokens - hidden;
  const size_t queries = tokens * tile.heads;
  if (queries == 0) return;
  const size_t first_depth = tile.first_depth + hidden;
  // Depths of the stretch that query a sees.
  const auto seen = [&](size_t a) HWY_ATTR { return HWY_MIN(kStretch, first_depth + a / tile.heads + 1 - begin); };
  const size_t depths = seen(queries - 1);

  const size_t k_size = padded(tile.k.size);
  const size_t v_size = padded(tile.v.size);
  float* q = scratch;
  float* scores = q + tile.queries() * k_size;
  float* rows = scores + tile.queries() * kStretch;
  const size_t partial_stride = partial_floats(tile.v.size);
  float* out = partials + hidden * tile.heads * partial_stride;

  std::fill_n(q, queries * k_size, 0.0f);
  for (size_t a = 0; a < queries; ++a) {
    const float* source = tile.q + (hidden + a / tile.heads) * tile.q_stride + a % tile.heads * tile.k.size;
    std::memcpy(q + a * k_size, source, tile.k.size * sizeof(float));
  }

  for (size_t first = 0; first < depths; first += kBlock) {
    const size_t count = HWY_MIN(kBlock, depths - first);
    for (size_t b = 0; b < count; ++b) unpack_row(tile.k, begin + first + b, rows + b * k_size);
    std::fill_n(rows + count * k_size, (kBlock - count) * k_size, 0.0f);
    scores_block(q, queries, rows, k_size, tile.scale, scores + first);
  }

  for (size_t a = 0; a < queries; ++a) {
    float* partial = out + a * partial_stride;
    softmax_stretch(scores + a * kStretch, seen(a), &partial[0], &partial[1]);
    std::fill_n(partial + kPartialHead, v_size, 0.0f);
  }

  for (size_t first = 0; first < depths; first += kBlock) {
    const size_t count = HWY_MIN(kBlock, depths - first);
    for (size_t b = 0; b < count; ++b) unpack_row(tile.v, begin + first + b, rows + b * v_size);
    // Rows of this block that query a sees; it grows with a.
    const auto in_block = [&](size_t a) HWY_ATTR { return seen(a) > first ? HWY_MIN(count, seen(a) - first) : 0; };
    for (size_t a = 0; a < queries;) {
      const float* weights = scores + a * kStretch + first;
      float* o = out + a * partial_stride + kPartialHead;
      // Queries go together over the rows that all of them see. The later rows follow one query at a time, which
      // leaves the order of each query's sum as it was.
      const size_t group = a + kQueries <= queries ? kQueries : 1;
      const size_t common = in_block(a);
      if (group == kQueries) {
        weighted_rows<kQueries>(weights, rows, v_size, common, o, partial_stride);
      } else {
        weighted_rows<1>(weights, rows, v_size, common, o, partial_stride);
      }
      for (size_t i = 1; i < group; ++i) {
        const size_t more = in_block(a + i) - common;
        if (more == 0) continue;
        weighted_rows<1>(weights + i * kStretch + common, rows + common * v_size, v_size, more,
                         o + i * partial_stride, partial_stride);
      }
      a += group;
    }
  }
}

void MergePartial(float* into, const float* next, size_t v_size) {
  const Floats d;
  const float max = HWY_MAX(into[0], next[0]);
  const float old_scale = exp_scalar(into[0] - max);
  const float new_scale = exp_scalar(next[0] - max);
  into[0] = max;
  into[1] = into[1] * old_scale + next[1] * new_scale;
  const Vec old_scales = hn::Set(d, old_scale);
  const Vec new_scales = hn::Set(d, new_scale);
  float* o = into + kPartialHead;
  const float* o_next = next + kPartialHead;
  for (size_t i = 0; i < v_size; i += kLanes) {
    hn::Store(hn::MulAdd(hn::Load(d, o_next + i), new_scales, hn::Mul(hn::Load(d, o + i), old_scales)), d, o + i);
  }
}

void FinishPartial(const float* partial, size_t v_size, float* out) {
  const Vec scale = hn::Set(Floats(), 1.0f / partial[1]);
  const float* o = partial + kPartialHead;
  map(v_size, out, [=](auto load) HWY_ATTR { return hn::Mul(load(o), scale); });
}

size_t AttentionScratchFloats(const AttentionTile& tile) {
  const size_t k_size = padded(tile.k.size);
  return tile.queries() * (k_size + kStretch) + kBlock * HWY_MAX(k_size, padded(tile.v.size));
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace stemma
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stemma::kernels {

HWY_EXPORT(AttendStretch);
HWY_EXPORT(MergePartial);
HWY_EXPORT(FinishPartial);
HWY_EXPORT(AttentionScratchFloats);

// A whole number of cache lines, so also of any target's vectors.
std::size_t partial_floats(std::size_t v_size) { return kPartialHead + (v_size + 15) / 16 * 16; }

std::size_t attention_scratch_floats(const AttentionTile& tile) {
  return HWY_DYNAMIC_DISPATCH(AttentionScratchFloats)(tile);
}

void attend_stretch(const AttentionTile& tile, std::size_t stretch, float* scratch, float* partials) {
  HWY_DYNAMIC_DISPATCH(AttendStretch)(tile, stretch, scratch, partials);
}

void merge_partial(float* into, const float* next, std::size_t v_size) {
  HWY_DYNAMIC_DISPATCH(MergePartial)(into, next, v_size);
}

void finish_partial(const float* partial, std::size_t v_size, float* out) {
  HWY_DYNAMIC_DISPATCH(FinishPartial)(partial, v_size, out);
}

}  // namespace stemma::kernels
#endif  // HWY_ONCE
