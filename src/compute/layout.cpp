#include "compute/layout.h"

#include "compute/dtype.h"

namespace stemma {
namespace {

constexpr std::int64_t kAlignFloats = 16;  // one cache line

std::size_t rounded_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::int64_t aligned(std::int64_t floats) {
  return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

}  // namespace

std::size_t KvLayout::bytes_per_token() const {
  std::size_t bytes = 0;
  for (const Layer& layer : layers) {
    bytes += row_bytes(k_type, layer.k_cols) + row_bytes(v_type, layer.v_cols);
  }
  return bytes;
}

std::size_t KvLayout::page_bytes() const {
  std::size_t bytes = 0;
  const auto slots = static_cast<std::size_t>(page_size);
  for (const Layer& layer : layers) {
    bytes = rounded_up(bytes + slots * stemma::row_bytes(k_type, layer.k_cols), sizeof(float));
    bytes = rounded_up(bytes + slots * stemma::row_bytes(v_type, layer.v_cols), sizeof(float));
  }
  return rounded_up(bytes, slot_alignment);
}

std::size_t StateLayout::row_bytes() const {
  return rounded_up(static_cast<std::size_t>(row_floats) * sizeof(float), slot_alignment);
}

void StateLayout::add_layer(std::int64_t conv_rows, std::int64_t conv_cols, std::int64_t heads, std::int64_t d_v,
                            std::int64_t d_k) {
  const std::int64_t conv_offset = row_floats;
  const std::int64_t matrix_offset = conv_offset + aligned(conv_rows * conv_cols);
  layers.push_back({conv_offset, conv_rows, conv_cols, matrix_offset, heads, d_v, d_k});
  row_floats = matrix_offset + aligned(heads * d_v * d_k);
}

}  // namespace stemma
