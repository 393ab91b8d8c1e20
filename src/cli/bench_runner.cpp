#include "cli/bench_runner.h"

#include <algorithm>
#include <chrono>
#include <random>

namespace stemma {

namespace {

template <class Work>
double seconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Random tokens, the same in every run.
std::vector<Token> random_tokens(std::size_t count, std::int64_t vocabulary) {
  std::mt19937 random(1);
  std::vector<Token> tokens(count);
  std::ranges::generate(tokens, [&] {
    return static_cast<Token>(random() % static_cast<std::uint64_t>(vocabulary));
  });
  return tokens;
}

}  // namespace

BenchRunner::BenchRunner(const Model& model, Device& device, const BenchMemory& memory,
                         int step_tokens)
    : model_(model),
      device_(device),
      page_size_(memory.page_size),
      step_tokens_(step_tokens),
      start_row_(row_of(memory.streams)),
      tokens_(random_tokens(
          static_cast<std::size_t>(memory.context) + static_cast<std::size_t>(memory.streams),
          model.info().vocabulary)),
      pages_of_(static_cast<std::size_t>(memory.streams)),
      logits_(static_cast<std::size_t>(memory.streams * model.info().vocabulary)) {
  const Depth pages = (memory.context + page_size_ - 1) / page_size_;
  std::uint32_t next = 0;
  for (std::vector<PageId>& ids : pages_of_) {
    for (Depth i = 0; i < pages; ++i) ids.push_back(PageId{next++});
  }
}

Result<BenchRunner> BenchRunner::create(const Model& model, Device& device,
                                        const BenchMemory& memory, int step_tokens) {
  BenchRunner runner(model, device, memory, step_tokens);
  const KvLayout kv = model.kv_layout(memory.k_type, memory.v_type, memory.page_size);
  const std::size_t page_count = runner.pages_of_.size() * runner.pages_of_.front().size();
  STEMMA_TRY(runner.pages_, device.make_pages(kv, page_count));
  STEMMA_TRY(runner.states_, device.make_states(model.state_layout(), runner.pages_of_.size() + 1));
  return runner;
}

void BenchRunner::start_from(int streams, Depth depth) {
  streams_ = streams;
  start_ = depth;
  states_->clear_row(row_of(0));
  compute_prompt(0, depth, /*with_logits=*/false);
  states_->copy_row(row_of(0), start_row_);
  const auto used = static_cast<std::size_t>((depth + page_size_ - 1) / page_size_);
  for (std::size_t stream = 1; stream < static_cast<std::size_t>(streams); ++stream) {
    for (std::size_t i = 0; i < used; ++i)
      pages_->copy_page(pages_of_[0][i], pages_of_[stream][i], page_size_);
  }
}

// Rows of pages beyond the start are written again before they are read.
void BenchRunner::rewind() {
  for (int stream = 0; stream < streams_; ++stream) states_->copy_row(start_row_, row_of(stream));
}

double BenchRunner::prompt_seconds(Depth tokens) {
  rewind();
  return seconds_of([&] { compute_prompt(start_, start_ + tokens, /*with_logits=*/true); });
}

void BenchRunner::compute_prompt(Depth from, Depth to, bool with_logits) {
  const Depth last = to - 1;
  for (Depth start = from; start < to; start += step_tokens_) {
    const Depth count = std::min(step_tokens_, to - start);
    Step step;
    step.segments.push_back({.tokens = {tokens_.data() + start, static_cast<std::size_t>(count)},
                             .start = start,
                             .pages = pages_of_[0],
                             .kv_write_from = start,
                             .row = row_of(0),
                             .marks = {},
                             .outputs = {}});
    if (with_logits && start + count == to) step.segments.back().outputs = {&last, 1};
    run(step);
  }
}

double BenchRunner::generation_seconds(Depth tokens) {
  rewind();
  Step step;
  step.segments.resize(static_cast<std::size_t>(streams_));
  return seconds_of([&] {
    for (Depth depth = start_; depth < start_ + tokens; ++depth) {
      for (std::size_t stream = 0; stream < step.segments.size(); ++stream) {
        step.segments[stream] = {.tokens = {tokens_.data() + depth + stream, 1},
                                 .start = depth,
                                 .pages = pages_of_[stream],
                                 .kv_write_from = depth,
                                 .row = row_of(static_cast<int>(stream)),
                                 .marks = {},
                                 .outputs = {&depth, 1}};
      }
      run(step);
    }
  });
}

void BenchRunner::run(const Step& step) {
  const auto count = static_cast<std::size_t>(model_.info().vocabulary) * step.output_count();
  device_.run(
      step, {model_.weights(), *pages_, *states_}, [this](Ops& ops) { return model_.forward(ops); },
      std::span(logits_).first(count));
}

}  // namespace stemma
