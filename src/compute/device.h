#pragma once
// A device: memory that models, pages and states live in, and steps that run on it.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "compute/layout.h"
#include "compute/ops.h"
#include "compute/step.h"
#include "compute/tensor.h"
#include "core/ids.h"
#include "core/result.h"

namespace stemma {

// A model's weights on a device. Move-only owner; Matrix and Vector handles name what is in it.
class WeightStore {
 public:
  virtual ~WeightStore() = default;

  // Takes a matrix for linear(). A device may keep the view instead of copying: the bytes must outlive the store. A
  // device may pack the matrix for its products: O(bytes), in parallel. Fails with `weight_type_unsupported` on a type
  // the device cannot multiply with, and with `out_of_memory`.
  virtual Result<Matrix> add_matrix(const HostMatrix& source) = 0;

  // As add_matrix(), for embed() alone, which takes either: never multiplied, so never packed.
  virtual Result<Matrix> add_table(const HostMatrix& source) = 0;

  // Takes all elements of `source` as one f32 vector, converting from its type.
  virtual Result<Vector> add_vector(const HostMatrix& source) = 0;
};

// The pages of a model: K and V rows of all attention layers for `page_count` pages.
class PageBuffer {
 public:
  virtual ~PageBuffer() = default;

  // Copies the first `slots` token slots of page `from` to page `to`, all layers.
  virtual void copy_page(PageId from, PageId to, int slots) = 0;

  // Gives a page's memory back to the system; what it held is gone. It takes memory again when it
  // is written.
  virtual void release(PageId page) = 0;

  // Takes the memory of the pages below `count` from the system now, not when they are first
  // written. To be called before any is. O(bytes).
  virtual void populate(std::size_t count) = 0;
};

// The state rows of a model: running states and f32 checkpoints alike.
class StateBuffer {
 public:
  virtual ~StateBuffer() = default;

  // Sets a row to the state at depth 0 (all zero).
  virtual void clear_row(RowId row) = 0;
  virtual void copy_row(RowId from, RowId to) = 0;

  // As PageBuffer::release and populate.
  virtual void release(RowId row) = 0;
  virtual void populate(std::size_t count) = 0;
};

// Where a step finds what outlives it. All three were made by the device that runs the step.
struct StepMemory {
  WeightStore& weights;
  PageBuffer& pages;
  StateBuffer& states;
};

class Device {
 public:
  virtual ~Device() = default;

  // One line for the log and /server_info, e.g. "cpu: 2 threads, AVX3_DL kernels".
  virtual std::string description() const = 0;

  // Identifies the arithmetic: records made under another identity are not exact here. E.g. "cpu/AVX3_DL".
  virtual std::string kernel_identity() const = 0;

  virtual std::unique_ptr<WeightStore> make_weight_store() = 0;

  // Bytes in which memory is taken from the system and given back. Where a layout's slot_alignment
  // is a multiple of it, pages and rows take memory only from when they are first written until
  // they are released. 0: this device takes all memory at once, and release() does nothing.
  virtual std::size_t release_granularity() const = 0;

  // Zeroed pages and rows. Fails with `out_of_memory`.
  virtual Result<std::unique_ptr<PageBuffer>> make_pages(const KvLayout& layout, std::size_t page_count) = 0;
  virtual Result<std::unique_ptr<StateBuffer>> make_states(const StateLayout& layout,
                                                           std::size_t row_count) = 0;

  // Runs `model` (which calls operations and returns the logits, one row an output) over `step` and copies the
  // logits to `logits`, [output_count, vocabulary] row-major. Blocks until done. One step at a time.
  virtual void run(const Step& step, StepMemory memory, const std::function<Tensor(Ops&)>& model,
                   std::span<float> logits) = 0;
};

}  // namespace stemma
