// One request's share of the cache; Lease forwards to LeaseState.

#include <algorithm>
#include <cassert>

#include "cache/lease_state.h"

namespace stemma {

LeaseState::LeaseState(CacheImpl& cache, const AcquireRequest& request, Lookup lookup, NodeId node,
                       Depth matched, Depth hit)
    : cache_(cache),
      ns_(request.ns),
      tokens_(request.tokens.begin(), request.tokens.end()),
      prompt_length_(static_cast<Depth>(request.tokens.size())),
      lookup_(lookup),
      retention_{
          std::min<std::uint8_t>(request.priority, 100),
          request.retention_seconds > 0 ? request.now_seconds + request.retention_seconds : 0},
      hit_(hit),
      kv_write_from_(matched),
      computed_(hit) {
  cache_.tree().pin(pin_, node, matched);
  // In order of the components.
  if (WindowComponent* const window = cache_.window()) {
    holdings_.push_back(&window_table_);
    window->share(cache_.tree().covering(node, hit), hit, window_table_);
  }
  if (KvComponent* const kv = cache_.kv()) {
    holdings_.push_back(&table_);
    table_.reserve(kv->pages_for(prompt_length_));
    kv->share(node, matched, 0, table_);
    if (kv->whole_pages(matched) != matched) table_.source = kv->share_last(node, matched);
  }
  if (StateComponent* const states = cache_.states()) {
    holdings_.push_back(&rows_);
    if (hit > 0) {
      const RowId row = *states->deepest(node, hit);
      assert(states->depth(row) == hit);
      rows_.source = states->hold(row);
    }
  }
  cache_.began(*this);
}

LeaseState::~LeaseState() {
  release_sources();
  if (WindowComponent* const window = cache_.window()) window->let_go_all(window_table_);
  cache_.tree().unpin(pin_);
  cache_.ended(*this);
}

std::size_t LeaseState::missing_pages() const {
  return cache_.kv() ? cache_.kv()->pages_for(prompt_length_) - table_.size() : 0;
}

std::size_t LeaseState::missing_window_pages() const {
  if (!cache_.window()) return 0;
  const auto to =
      std::min<std::int64_t>(prompt_length_, std::int64_t{hit_} + cache_.config().window_step);
  return cache_.window()->pages_to(static_cast<Depth>(to)) - window_table_.end();
}

std::size_t LeaseState::missing_rows() const {
  if (!cache_.states()) return 0;
  // With fewer than three rows a spare one would keep a lone sequence from its
  // source.
  const bool spare = cache_.config().strategy == SchedulerStrategy::extra_buffer &&
                     cache_.states()->pool().capacity() > 2;
  return spare ? 2 : 1;
}

void LeaseState::start(std::span<const Depth> message_ends) {
  Tree& tree = cache_.tree();
  const NodeId node = pin_.node;
  tree.use(node, kv_write_from_, retention_);
  if (KvComponent* const kv = cache_.kv(); kv && tree[node].leaf() && hit_ > tree[node].start)
    kv->use(node, hit_);
  if (WindowComponent* const window = cache_.window()) window->use(window_table_);
  StateComponent* const states = cache_.states();
  int before = 0;
  if (states) {
    if (rows_.source && states->at_path_end(rows_.source->id()))
      before = states->turn(rows_.source->id());
  } else if (const NodeId from = tree.covering(node, hit_); hit_ > 0 && tree[from].leaf()) {
    before = tree[from].turn;
  }
  pin_.turn = static_cast<std::uint16_t>(std::min(before + 1, 0xFFFF));
  if (rows_.source) states->use(rows_.source->id(), retention_);

  SnapshotInput input;
  std::vector<Depth> existing;
  std::vector<Depth> forks;
  if (states) {
    input = cache_.snapshot_input(hit_, lookup_.matched, prompt_length_,
                                  states->depths(node, 0, lookup_.matched).size());
    existing = states->depths(node, hit_, pin_.depth);
    forks = tree.forks(node, hit_, pin_.depth);
  }

  // From here on the pin may be lower: eviction can replace the page that it
  // lies inside.
  const std::size_t shared = table_.size();
  if (cache_.kv()) {
    [[maybe_unused]] const bool taken = cache_.take_pages(missing_pages(), table_);
    assert(taken);
    if (table_.source) {
      restore_plan_.page_copy =
          RestorePlan::PageCopy{table_.source->id(), table_[shared].id(),
                                kv_write_from_ - cache_.kv()->whole_pages(kv_write_from_)};
    }
  }
  if (WindowComponent* const window = cache_.window()) {
    const std::size_t own = window_table_.end();
    [[maybe_unused]] const bool taken = cache_.take_pages(missing_window_pages(), window_table_);
    assert(taken);
    if (window_table_.source) {
      restore_plan_.window_copy = RestorePlan::WindowCopy{
          window_table_.source->id(), window_table_[own].id(), hit_ % cache_.config().page_size};
    }
  }
  if (!states) return;

  rows_.running = cache_.take_row();
  assert(rows_.running);
  take_spare();
  if (rows_.source) restore_plan_.state_from = rows_.source->id();
  if (cache_.config().strategy == SchedulerStrategy::no_buffer) return;
  input.message_ends = message_ends;
  input.existing = existing;
  input.forks = forks;
  plan_ = plan_snapshots(cache_.config().snapshot, input);
}

void LeaseState::take_spare() {
  if (missing_rows() < 2 || !rows_.spare.empty()) return;
  if (std::optional<RowRef> row = cache_.take_row()) rows_.spare.push_back(std::move(*row));
}

std::optional<RowId> LeaseState::state_row() const {
  if (!rows_.running) return std::nullopt;
  return rows_.running->id();
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
  if (const KvComponent* const kv = cache_.kv()) {
    if (const Depth whole = kv->whole_pages(pin_.depth); whole < pin_.depth)
      cache_.tree().lower(pin_, whole);
  }
  cache_.check();
}

void LeaseState::release_sources() {
  table_.source.reset();
  if (WindowComponent* const window = cache_.window()) window->let_go_source(window_table_);
  if (!rows_.source) return;
  RowRef source = std::move(*rows_.source);
  rows_.source.reset();
  cache_.states()->give_back(std::move(source));
}

bool LeaseState::reserve(Depth depth) {
  if (reserve_pages(depth)) return true;
  // With a shared budget the rows that this lease keeps for its own marks may
  // be what is missing, and storing is optional.
  if (cache_.config().budget_bytes == 0 || !give_up_marks()) return false;
  return reserve_pages(depth);
}

bool LeaseState::reserve_pages(Depth depth) {
  if (const KvComponent* const kv = cache_.kv()) {
    const std::size_t wanted = kv->pages_for(depth);
    if (wanted > table_.size() && !cache_.take_pages(wanted - table_.size(), table_)) return false;
  }
  if (const WindowComponent* const window = cache_.window()) {
    const std::size_t wanted = window->pages_to(depth);
    const std::size_t end = window_table_.end();
    if (wanted > end && !cache_.take_pages(wanted - end, window_table_)) return false;
  }
  return true;
}

bool LeaseState::give_up_marks() {
  const std::size_t marks = rows_.prepared.size() + rows_.written.size();
  if (marks + rows_.spare.size() == 0) return false;
  rows_.spare.clear();
  rows_.prepared.clear();
  rows_.written.clear();
  lease_marks_.clear();
  return true;
}

std::optional<RowRef> LeaseState::row_for(const PlannedMark& mark) {
  if (!rows_.spare.empty()) {
    RowRef spare = std::move(rows_.spare.back());
    rows_.spare.pop_back();
    return spare;
  }
  return cache_.row_for_mark(pin_.node, mark, retention_);
}

std::span<const LeaseMark> LeaseState::prepare_marks(Depth to) {
  assert(to >= computed_ && to <= static_cast<Depth>(tokens_.size()));
  rows_.prepared.clear();
  lease_marks_.clear();
  if (!cache_.states() || cache_.config().strategy == SchedulerStrategy::no_buffer) return {};
  take_spare();

  std::vector<PlannedMark> wanted;
  for (const PlannedMark& mark : plan_) {
    if (mark.depth <= to) wanted.push_back(mark);
  }
  if (const Depth interval = cache_.config().snapshot.generation_interval; interval > 0) {
    for (Depth depth = to / interval * interval; depth > std::max(computed_, prompt_length_);
         depth -= interval) {
      wanted.push_back({depth, MarkSource::periodic});
    }
  }
  std::sort(wanted.begin(), wanted.end(), more_valuable);

  for (const PlannedMark& mark : wanted) {
    if (std::optional<RowRef> row = row_for(mark))
      rows_.prepared.push_back({mark.depth, mark.source, std::move(*row)});
  }
  cache_.count_marks(rows_.prepared.size(), wanted.size() - rows_.prepared.size());
  std::sort(rows_.prepared.begin(), rows_.prepared.end(),
            [](const StateRows::Mark& a, const StateRows::Mark& b) { return a.depth < b.depth; });
  for (const StateRows::Mark& mark : rows_.prepared)
    lease_marks_.push_back({mark.depth, mark.row.id()});
  return lease_marks_;
}

void LeaseState::publish(Depth to) {
  step_done(to);
  put_into_tree();
  cache_.check();
}

void LeaseState::advance(Depth to) {
  step_done(to);
  const WindowComponent* const window = cache_.window();
  if (!window || !window->can_let_go(window_table_, to)) return;
  put_into_tree();
  cache_.check();
}

NodeId LeaseState::put_into_tree() {
  assert(restored_);
  const std::span<const Token> done = std::span<const Token>(tokens_).first(computed_);
  const NodeId node = cache_.tree().extend(pin_, done, holdings_, retention_);
  for (StateRows::Mark& mark : rows_.written)
    cache_.states()->attach(node, mark.depth, mark.source, pin_.turn, std::move(mark.row));
  rows_.written.clear();
  if (WindowComponent* const window = cache_.window()) {
    window->attach(node, computed_, window_table_);
    window->let_go(window_table_, computed_);
  }
  return node;
}

void LeaseState::step_done(Depth to) {
  assert(to >= computed_ && to <= static_cast<Depth>(tokens_.size()));
  for (StateRows::Mark& mark : rows_.prepared) {
    if (mark.depth <= to) rows_.written.push_back(std::move(mark));
  }
  rows_.prepared.clear();
  lease_marks_.clear();
  std::erase_if(plan_, [to](const PlannedMark& mark) { return mark.depth <= to; });
  computed_ = to;
}

void LeaseState::finish() {
  if (!restored_) return;
  const NodeId node = put_into_tree();
  if (rows_.running && cache_.config().snapshot.end_snapshot) {
    cache_.states()->attach(node, computed_, MarkSource::end, pin_.turn, std::move(*rows_.running));
    rows_.running.reset();
  }
}

std::optional<std::string> LeaseState::verify() const {
  if (cache_.kv() && table_.size() < cache_.kv()->pages_for(computed_))
    return "a lease lacks pages";
  if (const WindowComponent* const window = cache_.window()) {
    const auto lacks = [&](std::size_t from, std::size_t to) {
      return window_table_.first() > from || window_table_.end() < to;
    };
    if (lacks(static_cast<std::size_t>(window->start_of(computed_) / cache_.config().page_size),
              window->pages_to(computed_)))
      return "a lease lacks window pages";
    if (window->can_let_go(window_table_, computed_)) return "a lease has pages before its window";
  }
  const Tree& tree = cache_.tree();
  Depth depth = pin_.depth;
  for (NodeId at = pin_.node; !tree[at].is_root(); at = tree[at].parent) {
    const Depth start = tree[at].start;
    const auto mine = std::span<const Token>(tokens_).subspan(start, depth - start);
    if (!std::equal(mine.begin(), mine.end(), tree[at].tokens().begin()))
      return "a lease's pin is on another path";
    depth = start;
  }
  return std::nullopt;
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
WindowPages Lease::window_pages() const { return state_->window_pages(); }
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
