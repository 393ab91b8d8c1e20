#pragma once
// Matrix products, one class of kernels a weight type. A product prepares each input row once (quantizes it, say) and
// then multiplies runs of weight rows with all prepared inputs, reading each weight once.
//
// Exact: an output depends on its weight row and its input row alone, not on how many inputs there are or how the
// rows are split.
//
// Threads: products are immutable; any number of threads may use one at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "compute/tensor.h"

namespace stemma {

class Product {
 public:
  virtual ~Product() = default;

  // Names the form of prepared inputs: products with equal forms can share them.
  virtual std::uint32_t input_form() const = 0;

  // Bytes of one prepared input of `cols` elements.
  virtual std::size_t prepared_bytes(std::int64_t cols) const = 0;

  // Prepares one input row.
  virtual void prepare(const float* x, std::int64_t cols, std::byte* prepared) const = 0;

  // Prepared inputs, one after the other `stride` bytes apart.
  struct Inputs {
    const std::byte* data;
    std::size_t stride;
    std::size_t count;
  };

  // Output of input i and weight row r at data[i * stride + r].
  struct Outputs {
    float* data;
    std::size_t stride;
  };

  // Multiplies the weight rows [first, first + count) with all inputs.
  virtual void multiply(const HostMatrix& weights, std::int64_t first, std::int64_t count, const Inputs& inputs,
                        const Outputs& outputs) const = 0;

  // Elements of one weight row as f32; out[cols].
  virtual void unpack_row(const HostMatrix& weights, std::int64_t row, float* out) const = 0;
};

// Readies ggml's tables. Once, before the first use of a product of ggml's. Any thread.
void prepare_ggml();

// The product for a type on ggml's public vec_dot kernels; nullptr if ggml has none for it.
std::unique_ptr<Product> make_ggml_product(DType type);

// Converts `count` elements (whole blocks) of any type that has values to f32; false if ggml cannot.
bool unpack_elements(DType type, const std::byte* data, std::int64_t count, float* out);

// ggml's version and the instruction sets it was compiled for, e.g. "ggml-0.25.3-avx512_vnni".
std::string ggml_identity();

}  // namespace stemma
