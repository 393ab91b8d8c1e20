#include "support/recording_device.h"

#include <bit>
#include <optional>
#include <utility>

namespace stemma::test {

namespace {

constexpr std::uint64_t kFnvOffset = 14695981039346656037u;

std::uint64_t fnv1a(std::uint64_t hash, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    hash = (hash ^ ((value >> shift) & 0xff)) * 1099511628211u;
  }
  return hash;
}

// Pages with the token that each slot's KV was computed from.
class RecordedPages final : public PageBuffer {
 public:
  RecordedPages(std::unique_ptr<PageBuffer> inner, int page_size, std::size_t page_count)
      : inner_(std::move(inner)),
        page_size_(page_size),
        tokens_(page_count * static_cast<std::size_t>(page_size)) {}

  void copy_page(PageId from, PageId to, int slots) override {
    for (int i = 0; i < slots; ++i) tokens_[slot(to, i)] = tokens_[slot(from, i)];
    inner_->copy_page(from, to, slots);
  }

  void release(PageId page) override {
    for (int i = 0; i < page_size_; ++i) tokens_[slot(page, i)].reset();
    inner_->release(page);
  }

  void populate(std::size_t count) override { inner_->populate(count); }

  std::optional<Token>& at(std::span<const PageId> table, Depth depth) {
    return tokens_[slot(table[static_cast<std::size_t>(depth / page_size_)], depth % page_size_)];
  }
  PageBuffer& inner() { return *inner_; }
  bool empty() const { return tokens_.empty(); }

 private:
  std::size_t slot(PageId page, int offset) const {
    return std::size_t{index_of(page)} * static_cast<std::size_t>(page_size_) +
           static_cast<std::size_t>(offset);
  }
  std::unique_ptr<PageBuffer> inner_;
  int page_size_;
  std::vector<std::optional<Token>> tokens_;
};

// State rows with the tokens that each has consumed; kNothing: one that was released, which no
// sequence has.
constexpr Token kNothing = -2;
class RecordedStates final : public StateBuffer {
 public:
  RecordedStates(std::unique_ptr<StateBuffer> inner, std::size_t row_count)
      : inner_(std::move(inner)), consumed_(row_count) {}

  void clear_row(RowId row) override {
    consumed_[index_of(row)].clear();
    inner_->clear_row(row);
  }
  void copy_row(RowId from, RowId to) override {
    consumed_[index_of(to)] = consumed_[index_of(from)];
    inner_->copy_row(from, to);
  }

  void release(RowId row) override {
    consumed_[index_of(row)] = {kNothing};
    inner_->release(row);
  }
  void populate(std::size_t count) override { inner_->populate(count); }

  std::vector<Token>& consumed(RowId row) { return consumed_[index_of(row)]; }
  StateBuffer& inner() { return *inner_; }
  bool empty() const { return consumed_.empty(); }

 private:
  std::unique_ptr<StateBuffer> inner_;
  std::vector<std::vector<Token>> consumed_;
};

// The tokens [0, end) of a segment's sequence, by what its state row and pages stand for; complains where they disagree.
std::vector<Token> follow(const Segment& segment, RecordedPages& pages, RecordedStates& states, LogitsBook& book) {
  std::vector<Token> sequence;
  if (!states.empty()) {
    sequence = states.consumed(segment.row);
    if (static_cast<Depth>(sequence.size()) != segment.start) {
      book.complain("a state row at depth " + std::to_string(sequence.size()) + " is used at depth " +
                    std::to_string(segment.start));
      sequence.resize(static_cast<std::size_t>(segment.start));
    }
  } else {
    for (Depth d = 0; d < segment.start; ++d) sequence.push_back(pages.at(segment.pages, d).value_or(-1));
  }
  sequence.insert(sequence.end(), segment.tokens.begin(), segment.tokens.end());

  if (!pages.empty()) {
    for (Depth d = 0; d < segment.end(); ++d) {
      std::optional<Token>& slot = pages.at(segment.pages, d);
      const Token token = sequence[static_cast<std::size_t>(d)];
      if (d >= segment.start && d >= segment.kv_write_from) slot = token;
      if (slot != token) {
        book.complain("the page slot at depth " + std::to_string(d) + " holds the KV of another token");
        break;
      }
    }
  }
  if (!states.empty()) {
    for (const Mark& mark : segment.marks) {
      states.consumed(mark.row).assign(sequence.begin(), sequence.begin() + mark.depth);
    }
    states.consumed(segment.row) = sequence;
  }
  return sequence;
}

}  // namespace

void LogitsBook::record(std::uint64_t sequence, std::span<const float> logits) {
  std::uint64_t bits = kFnvOffset;
  for (const float x : logits) bits = fnv1a(bits, std::bit_cast<std::uint32_t>(x));
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = bits_.emplace(sequence, bits);
  if (is_new) return;
  ++repeats_;
  if (entry->second != bits) complaints_.push_back("the same tokens gave other logits");
}

void LogitsBook::complain(std::string text) {
  const std::scoped_lock lock(mutex_);
  complaints_.push_back(std::move(text));
}

std::size_t LogitsBook::repeats() const {
  const std::scoped_lock lock(mutex_);
  return repeats_;
}

std::vector<std::string> LogitsBook::complaints() const {
  const std::scoped_lock lock(mutex_);
  return complaints_;
}

Result<std::unique_ptr<PageBuffer>> RecordingDevice::make_pages(const KvLayout& layout, std::size_t page_count) {
  STEMMA_TRY(auto inner, inner_->make_pages(layout, page_count));
  return std::make_unique<RecordedPages>(std::move(inner), layout.page_size, page_count);
}

Result<std::unique_ptr<StateBuffer>> RecordingDevice::make_states(const StateLayout& layout, std::size_t row_count) {
  STEMMA_TRY(auto inner, inner_->make_states(layout, row_count));
  return std::make_unique<RecordedStates>(std::move(inner), row_count);
}

void RecordingDevice::run(const Step& step, StepMemory memory, const std::function<Tensor(Ops&)>& model,
                          std::span<float> logits) {
  auto& pages = static_cast<RecordedPages&>(memory.pages);
  auto& states = static_cast<RecordedStates&>(memory.states);
  std::vector<std::uint64_t> keys;
  for (const Segment& segment : step.segments) {
    const std::vector<Token> sequence = follow(segment, pages, states, book_);
    std::uint64_t hash = kFnvOffset;
    std::size_t next = 0;
    for (Depth d = 0; d < segment.end() && next < segment.outputs.size(); ++d) {
      hash = fnv1a(hash, static_cast<std::uint32_t>(sequence[static_cast<std::size_t>(d)]));
      if (segment.outputs[next] != d) continue;
      keys.push_back(hash);
      ++next;
    }
  }
  inner_->run(step, {memory.weights, pages.inner(), states.inner()}, model, logits);
  if (keys.empty()) return;
  const std::size_t vocabulary = logits.size() / keys.size();
  for (std::size_t i = 0; i < keys.size(); ++i) book_.record(keys[i], logits.subspan(i * vocabulary, vocabulary));
}

}  // namespace stemma::test
