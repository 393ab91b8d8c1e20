// The CPU device gives the same bits however a sequence is computed: alone or in a batch, in chunks of any size, on
// any number of threads, in pages of any size, decoded or prefilled, from the start or from a checkpoint.

#include <algorithm>
#include <map>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "toy_model.h"

namespace stemma {
namespace {

constexpr std::size_t kLengths[] = {530, 1, 41, 257, 5};
constexpr Depth kMarkDepths[] = {1, 2, 3, 17, 36, 37, 38, 255, 256, 257, 290, 529, 530};
constexpr Depth kResumeDepths[] = {2, 37, 257, 290, 529};

struct Case {
  std::string name;
  ToyShape shape;
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"f32_kv_f32", {.k_type = DType::f32, .v_type = DType::f32}});
  all.push_back({"f16", {.weight_type = DType::f16}});
  all.push_back({"bf16_kv_mixed", {.weight_type = DType::bf16, .k_type = DType::f32, .v_type = DType::f16}});
  all.push_back({"q8_0", {.weight_type = DType::q8_0}});
  all.push_back({"q4_k", {.weight_type = DType::q4_k}});
  all.push_back({"odd_sizes",
                 {.width = 96,
                  .n_head = 6,
                  .n_head_kv = 2,
                  .k_size = 80,
                  .v_size = 80,
                  .n_rot = 80,
                  .h_k = 1,
                  .h_v = 3,
                  .d_k = 33,
                  .d_v = 29,
                  .d_conv = 3,
                  .pairs = RopeParams::Pairs::neighbours}});
  all.push_back({"one_kv_head_each", {.n_head = 3, .n_head_kv = 3, .k_size = 24, .v_size = 40, .n_rot = 16}});
  all.push_back({"wide_heads", {.n_head = 4, .n_head_kv = 1, .k_size = 128, .v_size = 128, .d_k = 128, .d_v = 128}});
  return all;
}

class Exact : public testing::TestWithParam<Case> {
 protected:
  Exact() {
    std::mt19937 random(11);
    for (const std::size_t length : kLengths) tokens_.push_back(random_tokens(random, length, GetParam().shape));
  }

  struct Result {
    std::vector<Logits> logits;
    std::vector<std::vector<float>> states;
  };

  // Each sequence alone and prefilled whole, on one thread.
  const Result& baseline() {
    if (!baseline_) {
      const auto device = make_cpu_device({.threads = 1});
      const ToyModel model(*device, GetParam().shape, 3);
      baseline_.emplace();
      for (const std::vector<Token>& tokens : tokens_) {
        ToyRunner runner(*device, model, 16, pages_for(16), 4);
        const std::size_t sequence = runner.add_sequence(tokens);
        runner.step({{sequence, static_cast<Depth>(tokens.size())}});
        baseline_->logits.push_back(runner.logits(sequence));
        baseline_->states.push_back(runner.state(sequence));
      }
    }
    return *baseline_;
  }

  // Pages for all sequences and one branch.
  std::size_t pages_for(int page_size) const {
    std::size_t pages = 0;
    for (const std::vector<Token>& tokens : tokens_) pages += tokens.size() / static_cast<std::size_t>(page_size) + 1;
    return pages + tokens_[0].size() / static_cast<std::size_t>(page_size) + 2;
  }

  // Feeds all sequences in steps of at most `batch` segments of at most `chunk` tokens (random below it if `mixed`).
  Result run(int threads, int page_size, Depth chunk, std::size_t batch, bool mixed) {
    const auto device = make_cpu_device({.threads = threads});
    const ToyModel model(*device, GetParam().shape, 3);
    ToyRunner runner(*device, model, page_size, pages_for(page_size), tokens_.size());
    std::vector<std::size_t> open;
    for (const std::vector<Token>& tokens : tokens_) open.push_back(runner.add_sequence(tokens));
    std::mt19937 random(23);
    while (!open.empty()) {
      if (mixed) std::ranges::shuffle(open, random);
      std::vector<ToyRunner::Part> parts;
      for (std::size_t i = 0; i < std::min(batch, open.size()); ++i) {
        const Depth wanted = mixed ? std::uniform_int_distribution<Depth>(1, chunk)(random) : chunk;
        parts.push_back({open[i], std::min(wanted, runner.remaining(open[i]))});
      }
      runner.step(parts);
      std::erase_if(open, [&](std::size_t sequence) { return runner.remaining(sequence) == 0; });
    }
    Result result;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      result.logits.push_back(runner.logits(i));
      result.states.push_back(runner.state(i));
    }
    return result;
  }

  void expect_same(const Result& result) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      EXPECT_TRUE(same_bits(result.states[i], baseline().states[i])) << "state of sequence " << i;
      for (std::size_t depth = 0; depth < tokens_[i].size(); ++depth) {
        ASSERT_TRUE(same_bits(result.logits[i][depth], baseline().logits[i][depth]))
            << "logits of sequence " << i << " at depth " << depth;
      }
    }
  }

  std::vector<std::vector<Token>> tokens_;
  std::optional<Result> baseline_;
};

TEST_P(Exact, WhateverTheSchedule) {
  for (const Logits& logits : baseline().logits) {
    for (const std::vector<float>& row : logits) {
      for (const float value : row) ASSERT_TRUE(std::isfinite(value));
    }
  }
  const struct {
    const char* name;
    int threads;
    int page_size;
    Depth chunk;
    std::size_t batch;
    bool mixed;
  } schedules[] = {
      {"decoded token by token, alone", 2, 16, 1, 1, false}, {"decoded in a batch", 2, 1, 1, 6, false},
      {"chunks of 37", 1, 64, 37, 3, false},                 {"chunks of 512 in a batch", 3, 7, 512, 6, false},
      {"mixed batches", 3, 16, 90, 4, true},                 {"mixed small batches", 2, 5, 7, 5, true},
  };
  for (const auto& s : schedules) {
    SCOPED_TRACE(s.name);
    expect_same(run(s.threads, s.page_size, s.chunk, s.batch, s.mixed));
  }
}

// A checkpoint taken at a mark holds the bits of the state of a run that stops there, and a run that resumes from it,
// over pages that another run wrote, gives the bits of a run from the start.
TEST_P(Exact, MarksAndResume) {
  const auto device = make_cpu_device({.threads = 2});
  const ToyModel model(*device, GetParam().shape, 3);
  const std::vector<Token>& tokens = tokens_[0];
  const auto length = static_cast<Depth>(tokens.size());
  const int page_size = 16;

  ToyRunner runner(*device, model, page_size, 12 * pages_for(page_size), 32);
  const std::size_t sequence = runner.add_sequence(tokens);
  std::map<Depth, RowId> checkpoints;
  std::vector<Mark> marks;
  for (const Depth depth : kMarkDepths) {
    marks.push_back({depth, runner.take_row()});
    checkpoints[depth] = marks.back().row;
  }
  // Two steps, so that marks fall on both sides of a cut and on the cut.
  const auto cut = std::ranges::find(marks, 37, &Mark::depth) + 1;
  runner.step({{sequence, 37, {marks.begin(), cut}}});
  runner.step({{sequence, length - 37, {cut, marks.end()}}});

  for (const auto& [depth, row] : checkpoints) {
    ToyRunner stops(*device, model, page_size, pages_for(page_size), 1);
    const std::span<const Token> head(tokens.data(), static_cast<std::size_t>(depth));
    stops.add_sequence(head);
    stops.step({{0, depth}});
    EXPECT_TRUE(same_bits(stops.state(0), runner.row(row))) << "checkpoint at depth " << depth;
  }

  for (const Depth depth : kResumeDepths) {
    for (const Depth ahead : {0, 19}) {
      const Depth shared = std::min(depth + ahead, length - 1);
      const std::size_t branch = runner.add_branch(tokens, sequence, depth, checkpoints[depth], shared);
      runner.step({{branch, 1}});
      if (runner.remaining(branch) > 0) runner.step({{branch, runner.remaining(branch)}});
      EXPECT_TRUE(same_bits(runner.state(branch), baseline().states[0])) << "resumed at " << depth;
      for (auto d = static_cast<std::size_t>(depth); d < tokens.size(); ++d) {
        ASSERT_TRUE(same_bits(runner.logits(branch)[d], baseline().logits[0][d]))
            << "logits at depth " << d << " after resuming at " << depth << " with KV up to " << shared;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Exact, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

}  // namespace
}  // namespace stemma
