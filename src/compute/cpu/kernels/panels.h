#pragma once
// Matrix products of packed weights. A panel is panel_rows() weight rows side by side, packed when the model is loaded so
// that a vector holds the same few columns of all its rows; inputs are prepared (quantized, say) once and then multiplied
// with panel after panel. Each weight is read from memory once, however many inputs there are.
//
// Exact: an output is the sum over the columns in order, block by block, in its own lane: it depends on its weight row and
// its input row alone.
//
// Formats are plain tables of functions, chosen at run time for the best instruction set; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "compute/tensor.h"

namespace stemma::kernels {

// How a format wants its inputs. Formats of equal form share prepared inputs.
enum class InputForm : std::uint32_t {
  blocks32,     // 8 bits in blocks of 32 (as ggml's Q8_0 and Q8_1), with the sums of the blocks
  blocks256,    // 8 bits in blocks of 256 (as ggml's Q8_K), with the sums of 16 and of 32
  f32,          // as they are
  f16,          // rounded to f16, held as f32
  bf16,         // rounded to bf16
};

// Inputs are prepared in groups of so many (prepared_layout.h).
std::size_t input_group(InputForm form);

// Bytes of a prepared group of rows of `cols` elements, a multiple of 64. `cols` is a multiple of the form's block.
std::size_t prepared_group_bytes(InputForm form, std::size_t cols);

// Prepares a group of `count` <= input_group(form) rows, x_stride floats apart. The parts of the group's other rows stay as they
// are. O(count * cols).
void prepare_inputs(InputForm form, const float* x, std::size_t x_stride, std::size_t count, std::size_t cols,
                    std::byte* group);

// `count` prepared inputs times one panel.
struct PanelProduct {
  const std::byte* panel;   // aligned to 64 bytes
  std::size_t cols;
  const std::byte* inputs;  // prepared groups, group_stride bytes apart
  std::size_t group_stride;
  std::size_t count;        // inputs
  float* out;               // output of input i and the panel's row r at out[i * out_stride + r]
  std::size_t out_stride;   // in floats
  std::size_t rows;         // rows to store, 1 to panel_rows
};

struct PanelFormat {
  InputForm input;
  std::size_t panel_rows;
  std::size_t (*panel_bytes)(std::size_t cols);  // a multiple of 64
  // Packs `rows` <= panel_rows rows of the file's blocks, row_stride bytes apart; the panel's other rows become zero.
  void (*pack)(const std::byte* source, std::size_t row_stride, std::size_t rows, std::size_t cols, std::byte* panel);
  void (*multiply)(const PanelProduct& product);
};

// The format for a type on this machine, if there is one. `amx`: it may use AMX (kernels/amx.h), which gives the same bits.
std::optional<PanelFormat> panel_format(DType type, bool amx);

}  // namespace stemma::kernels
