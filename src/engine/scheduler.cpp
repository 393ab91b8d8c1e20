#include "engine/scheduler.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stemma {

namespace {

void insert_by_id(std::vector<std::unique_ptr<Sequence>>& list, std::unique_ptr<Sequence> sequence) {
  const auto place = std::lower_bound(
      list.begin(), list.end(), sequence->id,
      [](const std::unique_ptr<Sequence>& entry, RequestId id) { return entry->id < id; });
  list.insert(place, std::move(sequence));
}

std::unique_ptr<Sequence> take(std::vector<std::unique_ptr<Sequence>>& list, RequestId id) {
  const auto found = std::find_if(list.begin(), list.end(), [id](const auto& s) { return s->id == id; });
  if (found == list.end()) return nullptr;
  std::unique_ptr<Sequence> sequence = std::move(*found);
  list.erase(found);
  return sequence;
}

}  // namespace

std::vector<Depth> share_prefill_budget(std::vector<Depth> remaining, Depth budget) {
  std::vector<Depth> share(remaining.size(), 0);
  if (remaining.empty()) return share;
  const auto give = [&](std::size_t i, Depth limit) {
    const Depth given = std::min({remaining[i], budget, limit});
    share[i] += given;
    remaining[i] -= given;
    budget -= given;
  };
  give(0, (budget + 1) / 2);
  std::vector<std::size_t> others(remaining.size() - 1);
  std::iota(others.begin(), others.end(), std::size_t{1});
  std::stable_sort(others.begin(), others.end(),
                   [&](std::size_t a, std::size_t b) { return remaining[a] < remaining[b]; });
  for (const std::size_t i : others) give(i, budget);
  give(0, budget);
  return share;
}

void Scheduler::enqueue(std::unique_ptr<Sequence> sequence) {
  insert_by_id(waiting_, std::move(sequence));
}

std::unique_ptr<Sequence> Scheduler::remove(RequestId id) {
  if (auto sequence = take(running_, id)) return sequence;
  return take(waiting_, id);
}

std::vector<std::size_t> Scheduler::admission_order() const {
  std::vector<std::size_t> order(waiting_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (config_.admission == AdmissionPolicy::longest_prefix) {
    std::vector<Depth> usable(waiting_.size());
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      usable[i] = cache_.lookup(waiting_[i]->ns, waiting_[i]->tokens).usable;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return usable[a] > usable[b]; });
  }
  return order;
}

std::vector<Sequence*> Scheduler::admit() {
  const auto full = [this] { return running_.size() >= static_cast<std::size_t>(config_.max_sequences); };
  std::vector<Sequence*> admitted;
  if (waiting_.empty() || full()) return admitted;
  const double now = cache_seconds();
  for (const std::size_t i : admission_order()) {
    if (full()) break;
    Sequence& sequence = *waiting_[i];
    auto outcome = cache_.acquire({.ns = sequence.ns,
                                   .tokens = sequence.tokens,
                                   .message_ends = sequence.message_ends,
                                   .priority = sequence.priority,
                                   .retention_seconds = sequence.retention_seconds,
                                   .now_seconds = now});
    if (const auto* reason = std::get_if<WaitReason>(&outcome)) {
      if (!sequence.started) sequence.result.waited[static_cast<std::size_t>(*reason)] = true;
      if (*reason == WaitReason::prefix_in_flight) continue;
      break;
    }
    sequence.lease.emplace(std::get<Lease>(std::move(outcome)));
    sequence.tokens.clear();
    admitted.push_back(&sequence);
    insert_by_id(running_, std::move(waiting_[i]));
  }
  std::erase_if(waiting_, [](const auto& slot) { return slot == nullptr; });
  return admitted;
}

void Scheduler::preempt(std::size_t index) {
  std::unique_ptr<Sequence> sequence = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  const auto tokens = sequence->lease->tokens();
  sequence->tokens.assign(tokens.begin(), tokens.end());
  std::move(*sequence->lease).finish();
  sequence->lease.reset();
  ++preemptions_;
  enqueue(std::move(sequence));
}

bool Scheduler::reserve_or_preempt(Sequence& sequence) {
  while (!sequence.lease->reserve(static_cast<Depth>(sequence.lease->tokens().size()))) {
    const bool is_youngest = running_.back().get() == &sequence;
    preempt(running_.size() - 1);
    if (is_youngest) return false;
  }
  return true;
}

std::vector<Chunk> Scheduler::plan() {
  std::vector<Sequence*> decoding;
  for (const auto& sequence : running_) {
    if (sequence->decoding()) decoding.push_back(sequence.get());
  }
  const bool prompts = decoding.size() < running_.size();
  const auto budget = static_cast<std::size_t>(config_.step_tokens);
  const std::size_t kept_for_prompts = prompts ? std::max<std::size_t>(1, budget / 8) : 0;
  const std::size_t turns =
      std::min(decoding.size(), std::max<std::size_t>(1, budget - std::min(budget, kept_for_prompts)));
  if (turns < decoding.size()) {
    std::rotate(decoding.begin(),
                decoding.begin() + static_cast<std::ptrdiff_t>(turn_ % decoding.size()), decoding.end());
    turn_ += turns;
    decoding.resize(turns);
    std::sort(decoding.begin(), decoding.end(),
              [](const Sequence* a, const Sequence* b) { return a->id < b->id; });
  }

  // A preemption takes the youngest first, so those already reserved below (older ones) stay.
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < decoding.size(); ++i) {
    const RequestId id = decoding[i]->id;
    if (running_.empty() || running_.back()->id < id) break;  // it and all after it were preempted
    Sequence& sequence = *decoding[i];
    if (!reserve_or_preempt(sequence)) break;
    chunks.push_back({&sequence, static_cast<Depth>(sequence.lease->tokens().size())});
  }

  std::vector<Sequence*> filling;
  std::vector<Depth> remaining;
  for (const auto& sequence : running_) {
    if (sequence->decoding()) continue;
    filling.push_back(sequence.get());
    remaining.push_back(sequence->remaining());
  }
  std::size_t room = budget > chunks.size() ? budget - chunks.size() : 1;
  planned_generating_ = chunks.size();
  if (!chunks.empty()) {
    room = std::min({room, static_cast<std::size_t>(config_.mixed_prefill_tokens), pace_.joinable()});
  }
  const std::vector<Depth> shares = share_prefill_budget(remaining, static_cast<Depth>(room));
  planned_prompt_tokens_ = static_cast<std::size_t>(std::reduce(shares.begin(), shares.end()));
  for (std::size_t i = 0; i < filling.size(); ++i) {
    if (shares[i] > 0) chunks.push_back({filling[i], filling[i]->lease->computed() + shares[i]});
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk& a, const Chunk& b) { return a.sequence->id < b.sequence->id; });
  return chunks;
}

}  // namespace stemma
