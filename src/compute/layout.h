#pragma once
// What a model keeps between steps, as sizes: KV rows for its attention layers and state parts for its recurrent
// layers. Memory allocates from these, devices address with them, the cache counts with them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compute/tensor.h"

namespace stemma {

// K and V of all attention layers. Within a page and layer, rows lie token after token:
// K [page_size, k_cols], V [page_size, v_cols].
struct KvLayout {
  struct Layer {
    std::int64_t k_cols;  // n_head_kv * head size of K
    std::int64_t v_cols;
  };
  std::vector<Layer> layers;  // attention layers only, in model order
  DType k_type = DType::f16;  // f16 or f32
  DType v_type = DType::f16;
  int page_size = 16;  // tokens, 1 to 256
  std::size_t slot_alignment = 64;  // bytes that a page's place and size are multiples of

  std::size_t bytes_per_token() const;
  // Of a page with all layers, K and V parts each on whole floats.
  std::size_t page_bytes() const;
};

// The state of all recurrent layers of one sequence: one row of floats. Each layer has a convolution window
// [d_conv - 1, conv_cols] (oldest token first) and, unless it is a bare short convolution, a recurrent matrix
// [heads, d_k, d_v] (row i of a head = key channel i).
struct StateLayout {
  struct Layer {
    std::int64_t conv_offset;  // in floats from the row's start; a multiple of 16
    std::int64_t conv_rows;    // d_conv - 1
    std::int64_t conv_cols;
    std::int64_t matrix_offset;
    std::int64_t heads;
    std::int64_t d_v;
    std::int64_t d_k;
  };
  std::vector<Layer> layers;  // recurrent layers only, in model order
  std::int64_t row_floats = 0;  // a multiple of 16
  std::size_t slot_alignment = 64;  // bytes that a row's place and size are multiples of

  bool empty() const { return layers.empty(); }
  std::size_t row_bytes() const;

  // Appends a layer and assigns its offsets.
  void add_layer(std::int64_t conv_rows, std::int64_t conv_cols, std::int64_t heads, std::int64_t d_v,
                 std::int64_t d_k);
};

}  // namespace stemma
