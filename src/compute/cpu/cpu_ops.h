#pragma once
// The operations of a step on the CPU, each carried out when it is called.
//
// Tensors live in an arena; a row is padded to whole cache lines. Work is cut into items that a thread pool carries
// out in any order; no item's result depends on how the work was cut (see each kernel for why).
//
// Use: begin(step), the model's calls, end(). One thread drives it.

#include <span>
#include <vector>

#include "compute/cpu/cpu_buffers.h"
#include "compute/cpu/cpu_weights.h"
#include "compute/cpu/memory.h"
#include "compute/cpu/rope_tables.h"
#include "compute/cpu/thread_pool.h"
#include "compute/ops.h"
#include "compute/step.h"

namespace stemma {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(ThreadPool& pool) : pool_(pool) {}

  // Everything given must live until end(). The memory must be of the CPU device.
  void begin(const Step& step, const StepMemory& memory);
  void end();

  // Copies the rows of `x` to `out`, row after row; out.size() == x.rows * x.cols.
  void read(Tensor x, std::span<float> out) const;

  Tensor embed(Matrix table) override;
  using Ops::linear;
  void linear(Tensor x, std::span<const LinearTerm> terms, std::span<Tensor> out) override;
  Tensor rms_norm(Tensor x, Vector weight, float eps) override;
  Tensor l2_norm(Tensor x, std::int64_t group, float eps) override;
  void add_to(Tensor a, Tensor b) override;
  Tensor silu_mul(Tensor gate, Tensor x) override;
  Tensor sigmoid_mul(Tensor gate, Tensor x) override;
  Tensor sigmoid(Tensor x) override;
  Tensor softplus_gate(Tensor x, Vector a, Vector bias) override;
  Tensor split_heads(Tensor x, std::int64_t groups, std::int64_t first, std::int64_t count) override;
  Tensor rope(Tensor x, const RopeParams& params) override;
  Tensor select_outputs(Tensor x) override;
  Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionParams& params) override;
  Tensor conv_silu(Tensor x, Vector kernel, int layer) override;
  Tensor gated_delta_net(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                         const GatedDeltaNetParams& params) override;

 private:
  // The floats behind a Tensor.
  struct View {
    float* data;
    std::size_t stride;  // floats from row to row
    std::size_t rows;
    std::size_t cols;

    float* row(std::size_t i) const { return data + i * stride; }
  };

  struct OpenScope {
    std::size_t tensors;
    Arena::Mark arena;
  };

  // Frees scratch memory of one operation. Tensors made meanwhile would be freed too: make results first.
  class Scratch {
   public:
    explicit Scratch(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
    ~Scratch() { arena_.release(mark_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    Arena& arena_;
    Arena::Mark mark_;
  };

  std::size_t open_scope() override;
  void close_scope(std::size_t mark) override;

  Tensor make_tensor(std::size_t rows, std::int64_t cols);
  View view(Tensor t) const;

  // Calls body(row, first column, column count) so that each element of rows x cols is covered once; runs of columns
  // start at multiples of `unit`.
  template <class Body>
  void for_each_run(std::size_t rows, std::size_t cols, std::size_t unit, Body&& body);

  // Stores the rows of k and v that the segments write.
  void write_kv(View k, View v, int layer);

  // In parallel over (segment, first of `count` parts): calls body(segment, its first row, part) for each.
  template <class Body>
  void for_each_segment_part(std::size_t parts, Body&& body);

  ThreadPool& pool_;
  Arena arena_;
  std::vector<View> tensors_;  // Tensor::id is an index
  std::vector<OpenScope> scopes_;
  RopeTables rope_tables_;

  // Of the current step.
  const Step* step_ = nullptr;
  CpuWeightStore* weights_ = nullptr;
  CpuPageBuffer* pages_ = nullptr;
  CpuStateBuffer* states_ = nullptr;
  std::vector<std::size_t> first_rows_;  // of each segment
  std::vector<Depth> depths_;            // of each row
};

}  // namespace stemma
