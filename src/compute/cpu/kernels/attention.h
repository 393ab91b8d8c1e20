#pragma once
// Attention of a tile of query rows over pages of K and V, exact: what a row gets depends on its q and on the K and V
// rows up to its depth alone.
//
// Depths are cut into stretches of kStretch, counted from depth 0. Within a stretch a query row takes softmax over
// the depths it sees, in their order, which leaves a Partial: the greatest score, the sum of weights and the weighted
// sum of V. Partials of a row are merged in order of depth. Neither step knows about pages, tiles or threads.

#include <cstddef>
#include <span>

#include "core/ids.h"

namespace stemma::kernels {

constexpr std::size_t kStretch = 256;

// The rows of one KV head in the pages of one sequence.
struct KvRows {
  const std::byte* base;      // of page 0, slot 0
  std::size_t page_stride;    // bytes from page to page
  std::size_t row_stride;     // bytes from slot to slot
  std::span<const PageId> pages;
  std::size_t page_size;
  bool half;                  // f16, else f32
  std::size_t size;           // elements of the head's row

  const std::byte* row(std::size_t depth) const {
    return base + index_of(pages[depth / page_size]) * page_stride + depth % page_size * row_stride;
  }
};

// Query rows of neighbouring tokens of one sequence, for the `heads` query heads that share one KV head. Query
// (token r, head h) has the index r * heads + h.
struct AttentionTile {
  const float* q;         // of the first token and head; a head's k.size floats follow the one before
  std::size_t q_stride;   // floats from token to token
  std::size_t tokens;
  std::size_t heads;
  std::size_t first_depth;  // of the first token
  KvRows k;
  KvRows v;
  float scale;

  std::size_t queries() const { return tokens * heads; }
};

// Floats of one query's Partial: greatest score, sum of weights, then (from kPartialHead on) the weighted sum of V.
constexpr std::size_t kPartialHead = 16;
std::size_t partial_floats(std::size_t v_size);

// Floats of scratch that attend_stretch() needs for a tile. Cache-line alignment is the caller's.
std::size_t attention_scratch_floats(const AttentionTile& tile);

// partials[query] = the Partial of each query over depths [stretch * kStretch, (stretch + 1) * kStretch); untouched
// for queries that see none of them.
void attend_stretch(const AttentionTile& tile, std::size_t stretch, float* scratch, float* partials);

// into = into merged with `next`, a Partial of later depths.
void merge_partial(float* into, const float* next, std::size_t v_size);

// out[v_size] = the attention output of a query whose Partials have all been merged.
void finish_partial(const float* partial, std::size_t v_size, float* out);

}  // namespace stemma::kernels
