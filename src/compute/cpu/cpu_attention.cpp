// CpuOps::attention: which items the work is cut into, and where their partial results lie.

#include <algorithm>

#include "compute/cpu/checked.h"
#include "compute/cpu/cpu_ops.h"
#include "compute/cpu/kernels/attention.h"

namespace stemma {
namespace {

using kernels::kStretch;

// Queries of a tile: enough to use each unpacked row of K and V well, few enough for the L2 cache.
constexpr std::size_t kTileQueries = 64;

// Segments of up to so many tokens may be cut along the depth, which stores a Partial for each stretch.
constexpr std::size_t kMaxSplitTokens = 4;

// One item: a tile over some stretches. Where the tile's stretches are spread over several items, `partials` has room
// for one set of Partials a stretch; else the item merges as it goes and writes the output.
struct Item {
  kernels::AttentionTile tile;
  float* out;  // of the first token and head
  std::size_t first_stretch;
  std::size_t stretch_count;
  float* partials;  // of first_stretch, or nullptr
};

std::size_t stretches_of(const kernels::AttentionTile& tile) {
  return (tile.first_depth + tile.tokens - 1) / kStretch + 1;
}

}  // namespace

Tensor CpuOps::attention(Tensor q, Tensor k, Tensor v, const AttentionParams& params) {
  const auto heads = static_cast<std::size_t>(params.n_head);
  const auto kv_heads = static_cast<std::size_t>(params.n_head_kv);
  const auto k_size = static_cast<std::size_t>(params.k_size);
  const auto v_size = static_cast<std::size_t>(params.v_size);
  const std::size_t group = heads / kv_heads;
  const Tensor y = make_tensor(depths_.size(), static_cast<std::int64_t>(heads * v_size));
  const View qs = view(q), ks = view(k), vs = view(v), out = view(y);
  STEMMA_ASSERT(heads % kv_heads == 0 && qs.cols == heads * k_size);
  STEMMA_ASSERT(ks.cols == kv_heads * k_size && vs.cols == kv_heads * v_size);
  STEMMA_ASSERT(qs.rows == out.rows && ks.rows == out.rows && vs.rows == out.rows);

  write_kv(ks, vs, params.layer);

  const Scratch scratch(arena_);
  const std::size_t tile_tokens = std::max<std::size_t>(1, kTileQueries / group);
  std::size_t tile_count = 0;
  std::size_t split_tiles = 0;
  std::size_t split_items = 0;
  for (const Segment& segment : step_->segments) {
    const std::size_t tokens = segment.tokens.size();
    tile_count += (tokens + tile_tokens - 1) / tile_tokens * kv_heads;
  }
  // A few long sequences alone do not keep the threads busy: cut them along the depth as well.
  const bool split = tile_count < 4 * static_cast<std::size_t>(pool_.threads());
  const auto is_split = [&](const kernels::AttentionTile& tile) {
    return split && tile.tokens <= kMaxSplitTokens && stretches_of(tile) > 1;
  };

  const std::span<Item> tiles = arena_.allocate_array<Item>(tile_count);
  std::size_t largest_scratch = 0;
  std::size_t largest_queries = 0;
  std::size_t t = 0;
  for (std::size_t s = 0; s < step_->segments.size(); ++s) {
    const Segment& segment = step_->segments[s];
    STEMMA_ASSERT(segment.pages.size() * static_cast<std::size_t>(pages_->page_size()) >=
                  static_cast<std::size_t>(segment.end()));
    for (std::size_t first = 0; first < segment.tokens.size(); first += tile_tokens) {
      for (std::size_t kv_head = 0; kv_head < kv_heads; ++kv_head) {
        const std::size_t row = first_rows_[s] + first;
        const auto k_first = static_cast<std::int64_t>(kv_head * k_size);
        const auto v_first = static_cast<std::int64_t>(kv_head * v_size);
        const kernels::AttentionTile tile{
            .q = qs.row(row) + kv_head * group * k_size,
            .q_stride = qs.stride,
            .tokens = std::min(tile_tokens, segment.tokens.size() - first),
            .heads = group,
            .first_depth = static_cast<std::size_t>(segment.start) + first,
            .k = pages_->k_rows(params.layer, k_first, params.k_size, segment.pages),
            .v = pages_->v_rows(params.layer, v_first, params.v_size, segment.pages),
            .scale = params.scale};
        tiles[t] = {tile, out.row(row) + kv_head * group * v_size, 0, stretches_of(tile), nullptr};
        largest_scratch = std::max(largest_scratch, kernels::attention_scratch_floats(tile));
        largest_queries = std::max(largest_queries, tile.queries());
        if (is_split(tile)) {
          ++split_tiles;
          split_items += tiles[t].stretch_count;
        }
        ++t;
      }
    }
  }

  const std::size_t partial_stride = kernels::partial_floats(v_size);
  const auto finish = [&](const Item& item, const float* partials) {
    for (std::size_t query = 0; query < item.tile.queries(); ++query) {
      float* to = item.out + query / group * out.stride + query % group * v_size;
      kernels::finish_partial(partials + query * partial_stride, v_size, to);
    }
  };
  // Merges the Partials of one stretch into those before it, for the queries that see the stretch.
  const auto merge = [&](const Item& item, std::size_t stretch, float* into, const float* next) {
    const std::size_t begin = stretch * kStretch;
    const std::size_t hidden = begin > item.tile.first_depth ? begin - item.tile.first_depth : 0;
    for (std::size_t query = hidden * group; query < item.tile.queries(); ++query) {
      kernels::merge_partial(into + query * partial_stride, next + query * partial_stride, v_size);
    }
  };

  const std::span<Item> items = arena_.allocate_array<Item>(tile_count - split_tiles + split_items);
  const std::span<Item> joins = arena_.allocate_array<Item>(split_tiles);
  std::size_t n = 0, j = 0;
  for (const Item& tile : tiles) {
    if (!is_split(tile.tile)) {
      items[n++] = tile;
      continue;
    }
    const std::size_t set = tile.tile.queries() * partial_stride;
    Item join = tile;
    join.partials = arena_.allocate_array<float>(tile.stretch_count * set).data();
    for (std::size_t stretch = 0; stretch < tile.stretch_count; ++stretch) {
      items[n++] = {tile.tile, tile.out, stretch, 1, join.partials + stretch * set};
    }
    joins[j++] = join;
  }

  const std::size_t partials_floats = largest_queries * partial_stride;
  const std::size_t floats_per_thread =
      round_up(largest_scratch, kCacheLine / sizeof(float)) + 2 * partials_floats;
  const std::span<float> thread_scratch =
      arena_.allocate_array<float>(floats_per_thread * static_cast<std::size_t>(pool_.threads()));
  pool_.parallel_for(items.size(), [&](std::size_t i, int thread) {
    const Item& item = items[i];
    float* merged = thread_scratch.data() + static_cast<std::size_t>(thread) * floats_per_thread;
    float* next = merged + partials_floats;
    float* work = next + partials_floats;
    if (item.partials != nullptr) {
      kernels::attend_stretch(item.tile, item.first_stretch, work, item.partials);
      return;
    }
    kernels::attend_stretch(item.tile, 0, work, merged);
    for (std::size_t stretch = 1; stretch < item.stretch_count; ++stretch) {
      kernels::attend_stretch(item.tile, stretch, work, next);
      merge(item, stretch, merged, next);
    }
    finish(item, merged);
  });
  pool_.parallel_for(joins.size(), [&](std::size_t i, int) {
    const Item& join = joins[i];
    const std::size_t set = join.tile.queries() * partial_stride;
    for (std::size_t stretch = 1; stretch < join.stretch_count; ++stretch) {
      merge(join, stretch, join.partials, join.partials + stretch * set);
    }
    finish(join, join.partials);
  });
  return y;
}

}  // namespace stemma
