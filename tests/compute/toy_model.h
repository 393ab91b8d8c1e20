#pragma once
// A small random hybrid model written in compute's operations, and a runner that feeds sequences to it in any
// schedule. Neither knows an architecture: they exist to exercise a device.

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "compute/cpu/cpu_buffers.h"
#include "compute/cpu/cpu_device.h"
#include "compute/device.h"

namespace stemma {

struct ToyShape {
  DType weight_type = DType::f32;
  std::int64_t width = 256;
  std::int64_t vocabulary = 48;
  int attention_layers = 1;
  int recurrent_layers = 2;
  int n_head = 4;
  int n_head_kv = 2;
  int k_size = 64;
  int v_size = 64;
  int n_rot = 32;
  int h_k = 2;
  int h_v = 4;
  int d_k = 64;
  int d_v = 64;
  int d_conv = 4;
  RopeParams::Pairs pairs = RopeParams::Pairs::halves;
  DType k_type = DType::f16;
  DType v_type = DType::f16;
};

// Layers: recurrent ones first, then attention. Weights depend on the seed and the shape alone.
class ToyModel {
 public:
  ToyModel(Device& device, const ToyShape& shape, std::uint32_t seed);

  Tensor forward(Ops& ops) const;
  WeightStore& weights() const { return *store_; }
  const ToyShape& shape() const { return shape_; }
  KvLayout kv_layout(int page_size) const;
  StateLayout state_layout() const;

 private:
  struct Recurrent {
    Vector norm;
    Matrix mixed;  // q, k, v of the delta net
    Matrix gate, decay, beta, out;
    Vector kernel, decay_scale, decay_bias, head_norm;
  };
  struct Attention {
    Vector norm;
    Matrix q, k, v, out;
    Vector q_norm, v_bias;
  };

  Matrix matrix(std::int64_t rows, std::int64_t cols);
  Vector vector(std::int64_t size, float mean, float spread);

  ToyShape shape_;
  std::mt19937 random_;
  std::vector<std::vector<std::byte>> bytes_;
  std::unique_ptr<WeightStore> store_;
  Matrix embedding_{};
  std::vector<Recurrent> recurrent_;
  std::vector<Attention> attention_;
  Vector final_norm_{};
};

// Logits of one sequence by depth; empty where none were asked for.
using Logits = std::vector<std::vector<float>>;

// Memory for some sequences and the steps that run over them. All memory that no step has written yet is NaN.
class ToyRunner {
 public:
  ToyRunner(Device& device, const ToyModel& model, int page_size, std::size_t pages, std::size_t rows);

  // A sequence that has consumed nothing; the tokens must outlive the runner. Returns its index.
  std::size_t add_sequence(std::span<const Token> tokens);

  // A sequence that starts at `depth` from the state in `checkpoint`, and shares the pages of `other` for the depths
  // below `shared` (a page that is partly shared is copied). Its tokens below `shared` equal the other's.
  std::size_t add_branch(std::span<const Token> tokens, std::size_t other, Depth depth, RowId checkpoint, Depth shared);

  RowId take_row() { return RowId{next_row_++}; }

  struct Part {
    std::size_t sequence;
    Depth count;                   // tokens to feed
    std::vector<Mark> marks = {};  // inside the part
  };
  // Runs one step and records the logits of all its tokens.
  void step(const std::vector<Part>& parts);

  Depth depth(std::size_t sequence) const { return sequences_[sequence].depth; }
  Depth remaining(std::size_t sequence) const {
    return static_cast<Depth>(sequences_[sequence].tokens.size()) - depth(sequence);
  }
  const Logits& logits(std::size_t sequence) const { return sequences_[sequence].logits; }
  std::vector<float> state(std::size_t sequence) const { return row(sequences_[sequence].row); }
  std::vector<float> row(RowId id) const;
  std::span<const PageId> pages(std::size_t sequence) const { return sequences_[sequence].pages; }
  CpuPageBuffer& page_buffer() { return static_cast<CpuPageBuffer&>(*pages_); }

 private:
  struct Sequence {
    std::span<const Token> tokens;
    Depth depth;
    Depth kv_write_from;
    RowId row;
    std::vector<PageId> pages;
    Logits logits;
  };

  void take_pages(Sequence& sequence);

  Device& device_;
  const ToyModel& model_;
  Depth page_size_;
  std::unique_ptr<PageBuffer> pages_;
  std::unique_ptr<StateBuffer> states_;
  std::vector<PageId> free_pages_;
  std::uint32_t next_row_ = 0;
  std::vector<Sequence> sequences_;
};

std::vector<Token> random_tokens(std::mt19937& random, std::size_t count, const ToyShape& shape);

// Whether two arrays hold the same bits (NaN equals the same NaN, 0 differs from -0).
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace stemma
