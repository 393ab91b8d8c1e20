#include "support/model_runner.h"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "compute/cpu/cpu_device.h"

namespace stemma::test {
namespace {

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(result).value();
}

// 0 ... count - 1 in a fixed scattered order.
template <class Id>
std::vector<Id> scattered(std::size_t count) {
  std::vector<Id> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(Id{static_cast<std::uint32_t>(i)});
  std::shuffle(ids.begin(), ids.end(), std::mt19937(7));
  return ids;
}

template <class Id>
Id take(std::vector<Id>& ids, const char* what) {
  if (ids.empty()) throw std::runtime_error(std::string("no ") + what + " left");
  const Id id = ids.back();
  ids.pop_back();
  return id;
}

}  // namespace

ModelRunner::ModelRunner(const std::string& path, const RunnerOptions& options)
    : device_(make_cpu_device({.threads = options.threads})), page_size_(options.page_size) {
  model_ = value_or_throw(load_model(value_or_throw(GgufFile::open(path)), *device_));
  const auto page_count = static_cast<std::size_t>(options.context / options.page_size + options.rows);
  pages_ = value_or_throw(
      device_->make_pages(model_->kv_layout(options.kv_type, options.kv_type, options.page_size), page_count));
  states_ = value_or_throw(device_->make_states(model_->state_layout(), static_cast<std::size_t>(options.rows)));
  free_pages_ = scattered<PageId>(page_count);
  free_rows_ = scattered<RowId>(static_cast<std::size_t>(options.rows));
}

PageId ModelRunner::take_page() { return take(free_pages_, "page"); }

RowId ModelRunner::add_row() { return take(free_rows_, "state row"); }

int ModelRunner::add_sequence() {
  const RowId row = add_row();
  states_->clear_row(row);
  sequences_.push_back({.pages = {}, .depth = 0, .row = row});
  return static_cast<int>(sequences_.size()) - 1;
}

int ModelRunner::fork(int source, Depth depth, RowId row) {
  const int forked = add_sequence();
  const Sequence& from = sequences_[static_cast<std::size_t>(source)];
  Sequence& to = sequences_[static_cast<std::size_t>(forked)];
  const int whole = depth / page_size_;
  to.pages.assign(from.pages.begin(), from.pages.begin() + whole);
  if (depth % page_size_ != 0) {
    to.pages.push_back(take_page());
    pages_->copy_page(from.pages[static_cast<std::size_t>(whole)], to.pages.back(), depth % page_size_);
  }
  to.depth = depth;
  states_->copy_row(row, to.row);
  return forked;
}

std::vector<ModelRunner::Logits> ModelRunner::step(std::span<const Part> parts) {
  Step step;
  std::vector<std::vector<Depth>> outputs(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    Sequence& sequence = sequences_[static_cast<std::size_t>(part.sequence)];
    const Depth start = sequence.depth;
    const Depth end = start + static_cast<Depth>(part.tokens.size());
    while (static_cast<Depth>(sequence.pages.size()) * page_size_ < end) sequence.pages.push_back(take_page());
    for (Depth depth = part.all_outputs ? start : end - 1; depth < end; ++depth) outputs[i].push_back(depth);
    step.segments.push_back({.tokens = part.tokens,
                             .start = start,
                             .pages = sequence.pages,
                             .kv_write_from = start,
                             .row = sequence.row,
                             .marks = part.marks,
                             .outputs = outputs[i]});
    sequence.depth = end;
  }
  const auto width = static_cast<std::size_t>(vocabulary());
  Logits all(step.output_count() * width);
  device_->run(step, {model_->weights(), *pages_, *states_}, [&](Ops& ops) { return model_->forward(ops); }, all);
  std::vector<Logits> rows;
  for (std::size_t i = 0; i < step.output_count(); ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * width);
    rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return rows;
}

std::vector<ModelRunner::Logits> ModelRunner::prefill(int sequence, std::span<const Token> tokens,
                                                      std::size_t chunk) {
  std::vector<Logits> rows;
  for (std::size_t done = 0; done < tokens.size(); done += chunk) {
    const auto now = tokens.subspan(done, std::min(chunk, tokens.size() - done));
    const Part part{.sequence = sequence, .tokens = {now.begin(), now.end()}, .all_outputs = true};
    std::ranges::move(step({&part, 1}), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace stemma::test
