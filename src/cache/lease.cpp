// One request's share of the cache; Lease forwards to LeaseState.

#include <algorithm>
#include <cassert>

#include "cache/lease_state.h"

namespace stemma {

LeaseState::LeaseState(CacheImpl& cache, const AcquireRequest& request, Lookup lookup, Node& node,
                       Depth matched, Depth hit)
    : cache_(cache),
      ns_(request.ns),
      tokens_(request.tokens.begin(), request.tokens.end()),
      prompt_length_(static_cast<Depth>(request.tokens.size())),
      lookup_(lookup),
      hit_(hit),
      kv_write_from_(matched),
      computed_(hit) {
  Tree& tree = cache_.tree();
  tree.pin(pin_, node, matched);
  pages_.reserve(cache_.pages_for(prompt_length_));
  tree.share_pages(node, matched, 0, pages_);
  if (tree.whole_pages(matched) != matched) page_source_ = tree.share_page(node, matched);
  if (cache_.has_rows() && hit > 0) {
    Checkpoint& checkpoint = *Tree::deepest_checkpoint(node, hit);
    assert(checkpoint.depth == hit);
    row_source_ = tree.hold(checkpoint);
    source_entry_ = checkpoint.entry;
  }
  cache_.began(*this);
}

LeaseState::~LeaseState() {
  release_sources();
  cache_.tree().unpin(pin_);
  cache_.ended(*this);
}

std::size_t LeaseState::missing_pages() const {
  return cache_.pages_for(prompt_length_) - pages_.size();
}

void LeaseState::start(std::span<const Depth> message_ends) {
  Tree& tree = cache_.tree();
  tree.touch(*pin_.node);
  if (row_source_) tree.touch(*Tree::deepest_checkpoint(*pin_.node, hit_));

  const std::vector<Depth> existing = tree.checkpoint_depths(*pin_.node, hit_, pin_.depth);

  // From here on the pin may be lower: eviction can replace the page that it lies inside.
  const std::size_t shared = pages_.size();
  [[maybe_unused]] const bool taken = cache_.take_pages(missing_pages(), pages_);
  assert(taken);
  list_page_ids(0);
  if (page_source_) {
    restore_plan_.page_copy = RestorePlan::PageCopy{
        page_source_->id(), page_ids_[shared], kv_write_from_ - tree.whole_pages(kv_write_from_)};
  }
  if (!cache_.has_rows()) return;

  row_ = cache_.take_row();
  assert(row_);
  if (row_source_) restore_plan_.state_from = row_source_->id();
  plan_ = plan_snapshots(cache_.config().snapshot, {.hit = hit_,
                                                    .matched = lookup_.matched,
                                                    .length = prompt_length_,
                                                    .message_ends = message_ends,
                                                    .existing = existing,
                                                    .free_rows = cache_.free_row_share()});
}

std::optional<RowId> LeaseState::state_row() const {
  if (!row_) return std::nullopt;
  return row_->id();
}

Depth LeaseState::planned_depth(Depth limit) const {
  Depth deepest = 0;
  for (const PlannedMark& mark : plan_) {
    if (mark.depth <= limit) deepest = mark.depth;
  }
  return deepest;
}

void LeaseState::plan_branch(Depth depth) {
  assert(depth > computed_ && depth <= prompt_length_);
  const auto place =
      std::lower_bound(plan_.begin(), plan_.end(), depth,
                       [](const PlannedMark& mark, Depth d) { return mark.depth < d; });
  if (place != plan_.end() && place->depth == depth) {
    place->source = std::max(place->source, MarkSource::branch);
  } else {
    plan_.insert(place, {depth, MarkSource::branch});
  }
}

void LeaseState::restored() {
  if (restored_) return;
  restored_ = true;
  release_sources();
  Tree& tree = cache_.tree();
  if (const Depth whole = tree.whole_pages(pin_.depth); whole < pin_.depth) tree.lower(pin_, whole);
  cache_.check();
}

void LeaseState::release_sources() {
  page_source_.reset();
  if (!row_source_) return;
  row_source_.reset();
  cache_.tree().release(source_entry_);
}

void LeaseState::append(Token token) { tokens_.push_back(token); }

bool LeaseState::reserve(Depth depth) {
  const std::size_t wanted = cache_.pages_for(depth);
  if (wanted <= pages_.size()) return true;
  const std::size_t before = pages_.size();
  if (!cache_.take_pages(wanted - before, pages_)) return false;
  list_page_ids(before);
  return true;
}

std::span<const LeaseMark> LeaseState::prepare_marks(Depth to) {
  assert(to >= computed_ && to <= static_cast<Depth>(tokens_.size()));
  prepared_.clear();
  lease_marks_.clear();
  if (!cache_.has_rows()) return {};

  std::vector<PlannedMark> wanted;
  for (const PlannedMark& mark : plan_) {
    if (mark.depth <= to) wanted.push_back(mark);
  }
  if (const Depth interval = cache_.config().snapshot.periodic_interval; interval > 0) {
    for (Depth depth = to / interval * interval; depth > std::max(computed_, prompt_length_);
         depth -= interval) {
      wanted.push_back({depth, MarkSource::periodic});
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const PlannedMark& a, const PlannedMark& b) {
    return a.source != b.source ? a.source > b.source : a.depth > b.depth;
  });

  for (const PlannedMark& mark : wanted) {
    if (std::optional<RowRef> row = cache_.row_for_mark(mark.source)) {
      prepared_.push_back({mark.depth, std::move(*row)});
    }
  }
  cache_.count_marks(prepared_.size(), wanted.size() - prepared_.size());
  std::sort(prepared_.begin(), prepared_.end(),
            [](const RowMark& a, const RowMark& b) { return a.depth < b.depth; });
  for (const RowMark& mark : prepared_) lease_marks_.push_back({mark.depth, mark.row.id()});
  return lease_marks_;
}

void LeaseState::publish(Depth to) {
  put_into_tree(to);
  cache_.check();
}

Node& LeaseState::put_into_tree(Depth to) {
  assert(restored_);
  advance(to);
  const std::size_t first = cache_.has_pages() ? pin_.depth / cache_.config().page_size : 0;
  Node& node = cache_.tree().extend(pin_, std::span<const Token>(tokens_).first(to), pages_);
  list_page_ids(first);
  for (RowMark& mark : written_) cache_.tree().attach(node, mark.depth, std::move(mark.row));
  written_.clear();
  return node;
}

void LeaseState::advance(Depth to) {
  assert(to >= computed_ && to <= static_cast<Depth>(tokens_.size()));
  assert(cache_.pages_for(to) <= pages_.size());
  for (RowMark& mark : prepared_) {
    if (mark.depth <= to) written_.push_back(std::move(mark));
  }
  prepared_.clear();
  lease_marks_.clear();
  std::erase_if(plan_, [to](const PlannedMark& mark) { return mark.depth <= to; });
  computed_ = to;
}

void LeaseState::finish() {
  if (!restored_) return;
  Node& node = put_into_tree(computed_);
  if (row_ && cache_.config().snapshot.end_snapshot) {
    cache_.tree().attach(node, computed_, std::move(*row_));
    row_.reset();
  }
}

void LeaseState::list_page_ids(std::size_t first) {
  page_ids_.resize(first);
  for (std::size_t i = first; i < pages_.size(); ++i) page_ids_.push_back(pages_[i].id());
}

Lease::Lease(std::unique_ptr<LeaseState> state) : state_(std::move(state)) {}
Lease::Lease(Lease&&) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  Lease taken(std::move(other));
  std::swap(state_, taken.state_);
  return *this;
}

Lease::~Lease() {
  if (!state_) return;
  const CacheImpl& cache = state_->cache();
  state_.reset();
  cache.check();
}

Depth Lease::hit() const { return state_->hit(); }
const Lookup& Lease::lookup() const { return state_->lookup(); }
Depth Lease::computed() const { return state_->computed(); }
Depth Lease::kv_write_from() const { return state_->kv_write_from(); }
std::span<const Token> Lease::tokens() const { return state_->tokens(); }
std::span<const PageId> Lease::pages() const { return state_->pages(); }
std::optional<RowId> Lease::state_row() const { return state_->state_row(); }
const RestorePlan& Lease::restore_plan() const { return state_->restore_plan(); }
void Lease::restored() { state_->restored(); }
void Lease::append(Token token) { state_->append(token); }
bool Lease::reserve(Depth depth) { return state_->reserve(depth); }
std::span<const LeaseMark> Lease::prepare_marks(Depth to) { return state_->prepare_marks(to); }
void Lease::publish(Depth to) { state_->publish(to); }
void Lease::advance(Depth to) { state_->advance(to); }

void Lease::finish() && {
  state_->finish();
  const Lease ended(std::move(*this));
}

}  // namespace stemma
