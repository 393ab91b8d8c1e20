#pragma once
// A model that computes for a stopwatch: sequences of random tokens in memory of their own, without
// an engine, a cache or sampling around them. What `stemma bench` times.
//
// Every sequence has its own pages and its own state row, in order; a row more keeps the state at
// the depth that the runs start from. One thread.

#include <memory>
#include <vector>

#include "compute/device.h"
#include "core/result.h"
#include "models/model.h"

namespace stemma {

struct BenchMemory {
  DType k_type;
  DType v_type;
  int page_size;
  int streams;    // sequences at most
  Depth context;  // tokens of a sequence at most
};

class BenchRunner {
 public:
  // `model` and `device` must outlive the runner; steps of a prompt have at most `step_tokens`
  // tokens. Errors: `out_of_memory`.
  static Result<BenchRunner> create(const Model& model, Device& device, const BenchMemory& memory,
                                    int step_tokens);

  // From now on runs start with `streams` sequences of `depth` tokens. Computes one of them and
  // copies it. Both within what the memory is for.
  void start_from(int streams, Depth depth);

  // Computes `tokens` more of one sequence, as a prompt: the logits of the last. Returns the
  // seconds that it took.
  double prompt_seconds(Depth tokens);

  // Computes `tokens` more of every sequence, one of each in a step, with logits. Returns the
  // seconds that it took.
  double generation_seconds(Depth tokens);

 private:
  BenchRunner(const Model& model, Device& device, const BenchMemory& memory, int step_tokens);

  void rewind();
  void compute_prompt(Depth from, Depth to, bool with_logits);
  void run(const Step& step);
  RowId row_of(int stream) const { return RowId{static_cast<std::uint32_t>(stream)}; }

  const Model& model_;
  Device& device_;
  int page_size_;
  Depth step_tokens_;
  RowId start_row_;  // the state that runs start from
  std::vector<Token> tokens_;
  std::vector<std::vector<PageId>> pages_of_;  // by stream
  std::vector<float> logits_;
  std::unique_ptr<PageBuffer> pages_;
  std::unique_ptr<StateBuffer> states_;
  int streams_ = 1;
  Depth start_ = 0;
};

}  // namespace stemma
