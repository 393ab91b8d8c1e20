#pragma once
// A model on a device without engine or cache: the caller says which tokens of which sequences form a step. For tests
// of models and of exactness.
//
// Each sequence has a state row and as many pages as it needs, handed out in a scattered order so that no test passes
// by contiguity. Construction throws std::runtime_error; sequence numbers and rows must be ones it gave out.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/device.h"
#include "models/model.h"

namespace stemma::test {

struct RunnerOptions {
  int threads = 2;
  DType kv_type = DType::f32;
  int page_size = 16;
  Depth context = 2048;     // tokens over all sequences, each rounded up to whole pages
  int rows = 16;            // state rows: sequences and checkpoints
};

class ModelRunner {
 public:
  using Logits = std::vector<float>;  // one row, [vocabulary]

  explicit ModelRunner(const std::string& path, const RunnerOptions& options = {});

  const Model& model() const { return *model_; }
  const Device& device() const { return *device_; }
  std::int64_t vocabulary() const { return model_->info().vocabulary; }

  // A sequence of depth 0 with a clear state row.
  int add_sequence();

  // A sequence that continues `source` at `depth`, where checkpoint `row` was stored: shares its whole pages, and
  // copies the page that `depth` lies in and the state.
  int fork(int source, Depth depth, RowId row);

  // A row for a checkpoint.
  RowId add_row();

  struct Part {
    int sequence;
    std::vector<Token> tokens;   // appended to the sequence
    bool all_outputs = false;    // logits of every token, else of the last
    std::vector<Mark> marks = {};
  };

  // One step over all parts; the logits of their outputs in order.
  std::vector<Logits> step(std::span<const Part> parts);

  // Appends `tokens` to one sequence in chunks of `chunk`; the logits of every token.
  std::vector<Logits> prefill(int sequence, std::span<const Token> tokens, std::size_t chunk);

 private:
  struct Sequence {
    std::vector<PageId> pages;
    Depth depth = 0;
    RowId row;
  };

  PageId take_page();

  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  int page_size_;
  std::unique_ptr<PageBuffer> pages_;
  std::unique_ptr<StateBuffer> states_;
  std::vector<PageId> free_pages_;
  std::vector<RowId> free_rows_;
  std::vector<Sequence> sequences_;
};

}  // namespace stemma::test
