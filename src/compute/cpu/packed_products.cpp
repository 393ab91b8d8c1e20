// Products on our own kernels over packed weights (kernels/panels.h), and which product a type gets.

#include <algorithm>

#include "compute/cpu/kernels/amx.h"
#include "compute/cpu/kernels/panels.h"
#include "compute/cpu/products.h"
#include "compute/dtype.h"

namespace stemma {
namespace {

// Bytes of prepared inputs that are multiplied with a few panels before the next inputs come: they stay in the L2 cache.
constexpr std::size_t kInputTileBytes = std::size_t{768} << 10;

class PackedProduct final : public Product {
 public:
  PackedProduct(DType type, const kernels::PanelFormat& format) : type_(type), format_(format) {}

  std::uint32_t input_form() const override { return static_cast<std::uint32_t>(format_.input); }

  std::size_t input_group() const override { return kernels::input_group(format_.input); }

  std::size_t prepared_bytes(std::int64_t cols) const override {
    return kernels::prepared_group_bytes(format_.input, static_cast<std::size_t>(cols));
  }

  void prepare(const float* x, std::size_t x_stride, std::size_t count, std::int64_t cols,
               std::byte* prepared) const override {
    kernels::prepare_inputs(format_.input, x, x_stride, count, static_cast<std::size_t>(cols), prepared);
  }

  std::int64_t row_unit() const override { return static_cast<std::int64_t>(format_.panel_rows); }

  std::size_t packed_bytes(std::int64_t cols, std::int64_t rows) const override {
    const auto panels = static_cast<std::size_t>((rows + row_unit() - 1) / row_unit());
    return panels * format_.panel_bytes(static_cast<std::size_t>(cols));
  }

  void pack(const HostMatrix& source, std::int64_t first, std::int64_t count, std::byte* packed) const override {
    const std::size_t stride = row_bytes(type_, source.cols);
    for_each_panel(first, count, source.cols, [&](std::int64_t row, std::size_t rows, std::size_t offset) {
      format_.pack(source.data + static_cast<std::size_t>(row) * stride, stride, rows,
                   static_cast<std::size_t>(source.cols), packed + offset);
    });
  }

  void multiply(const Weights& weights, std::int64_t first, std::int64_t count, const Inputs& inputs,
                const Outputs& outputs) const override {
    const std::size_t group = input_group();
    const std::size_t tile = std::max<std::size_t>(1, kInputTileBytes / inputs.stride) * group;
    for (std::size_t begin = 0; begin < inputs.count; begin += tile) {
      for_each_panel(first, count, weights.source.cols, [&](std::int64_t row, std::size_t rows, std::size_t offset) {
        format_.multiply({.panel = weights.packed + offset,
                          .cols = static_cast<std::size_t>(weights.source.cols),
                          .inputs = inputs.data + begin / group * inputs.stride,
                          .group_stride = inputs.stride,
                          .count = std::min(tile, inputs.count - begin),
                          .out = outputs.data + begin * outputs.stride + row,
                          .out_stride = outputs.stride,
                          .rows = rows});
      });
    }
  }

 private:
  // Calls body(first row, rows, the panel's offset in the packed form) for the panels of [first, first + count).
  template <class Body>
  void for_each_panel(std::int64_t first, std::int64_t count, std::int64_t cols, Body&& body) const {
    const std::size_t bytes = format_.panel_bytes(static_cast<std::size_t>(cols));
    for (std::int64_t row = first; row < first + count; row += row_unit()) {
      body(row, static_cast<std::size_t>(std::min(row_unit(), first + count - row)),
           static_cast<std::size_t>(row / row_unit()) * bytes);
    }
  }

  DType type_;
  kernels::PanelFormat format_;
};

}  // namespace

std::unique_ptr<Product> make_packed_product(DType type, bool amx) {
  const std::optional<kernels::PanelFormat> format = kernels::panel_format(type, amx);
  if (!format) return nullptr;
  return std::make_unique<PackedProduct>(type, *format);
}

std::unique_ptr<Product> make_product(DType type) {
  std::unique_ptr<Product> packed = make_packed_product(type, kernels::amx_available());
  return packed ? std::move(packed) : make_ggml_product(type);
}

}  // namespace stemma
