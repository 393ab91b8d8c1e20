#pragma once
// Matrix products, one object a weight type. A product packs weights once, when they are loaded, prepares each input row
// once (quantizes it, say) and then multiplies runs of weight rows with all prepared inputs, reading each weight once.
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

  // Input rows that are prepared together.
  virtual std::size_t input_group() const = 0;

  // Bytes of a prepared group of rows of `cols` elements.
  virtual std::size_t prepared_bytes(std::int64_t cols) const = 0;

  // Prepares a group of `count` <= input_group() rows of `cols` elements, x_stride floats apart.
  virtual void prepare(const float* x, std::size_t x_stride, std::size_t count, std::int64_t cols,
                       std::byte* prepared) const = 0;

  // Prepared inputs, group after group, `stride` bytes apart.
  struct Inputs {
    const std::byte* data;
    std::size_t stride;
    std::size_t count;  // rows
  };

  // Output of input i and weight row r at data[i * stride + r].
  struct Outputs {
    float* data;
    std::size_t stride;
  };

  // A matrix as the file holds it and, unless packed_bytes() is 0, as pack() left it.
  struct Weights {
    HostMatrix source;
    const std::byte* packed;  // aligned to a cache line
  };

  // Weight rows that belong together: pack() and multiply() start at multiples of it.
  virtual std::int64_t row_unit() const = 0;

  // Bytes of the packed form of a matrix; 0 if the file's bytes are multiplied as they are.
  virtual std::size_t packed_bytes(std::int64_t cols, std::int64_t rows) const = 0;

  // Packs the rows [first, first + count) of `source` into their places in `packed`, the whole matrix' packed form.
  virtual void pack(const HostMatrix& source, std::int64_t first, std::int64_t count, std::byte* packed) const = 0;

  // Multiplies the weight rows [first, first + count) with all inputs.
  virtual void multiply(const Weights& weights, std::int64_t first, std::int64_t count, const Inputs& inputs,
                        const Outputs& outputs) const = 0;
};

// The product for a type, on our own kernels where they have it and else on ggml's; nullptr if neither has it.
std::unique_ptr<Product> make_product(DType type);

// The product on our own kernels (kernels/panels.h), which pack; nullptr if they lack the type. `amx`: it may use AMX
// (kernels/amx.h).
std::unique_ptr<Product> make_packed_product(DType type, bool amx);

// Readies ggml's tables. Once, before the first use of a product of ggml's. Any thread.
void prepare_ggml();

// The product for a type on ggml's public vec_dot kernels; nullptr if ggml has none for it.
std::unique_ptr<Product> make_ggml_product(DType type);

// Converts `count` elements (whole blocks) of any type that has values to f32; false if ggml cannot.
bool unpack_elements(DType type, const std::byte* data, std::int64_t count, float* out);

// ggml's version and the instruction sets it was compiled for, e.g. "ggml-0.25.3-avx512_vnni".
std::string ggml_identity();

}  // namespace stemma
