// How one budget becomes pages and rows.
//
// What must fit: the pages of one context and, in recurrent models, two rows (one that runs and one
// checkpoint to resume from). Of what is left, rows for the other sequences that may run are served
// first, from at most half of it: with fewer, they wait for each other. The rest is halved by
// bytes. Pages and checkpoints are worth nothing without each other: a hit needs both, and
// neither's need is known before requests come.
//
// Better than halves is one budget for both (the cache then weighs pages against checkpoints while
// it runs), where the device can give a slot's memory back: each slot is padded to whole pages of
// the machine, so that what is resident is never more than the budget. Where padding would cost
// more than an eighth of a slot, the budget is split.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>

#include "memory/memory.h"

namespace stemma {

namespace {

// Ids are 32 bits; the cache keeps the largest for itself.
constexpr std::size_t kMostSlots = std::numeric_limits<std::uint32_t>::max() - 1;

std::string size_text(std::size_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::uint32_t slots(std::size_t bytes, std::size_t slot_bytes) {
  return slot_bytes == 0 ? 0 : static_cast<std::uint32_t>(std::min(bytes / slot_bytes, kMostSlots));
}

// What must fit: the pages of one context and two rows.
struct Least {
  std::size_t page_bytes;
  std::size_t rows;
  std::size_t row_bytes;
  std::size_t bytes() const { return page_bytes + row_bytes; }
};

Least least_of(const MemoryBudget& budget, const KvLayout& kv, const StateLayout& state) {
  const auto page_size = static_cast<std::size_t>(kv.page_size);
  const std::size_t pages =
      (static_cast<std::size_t>(budget.context_length) + page_size - 1) / page_size;
  const std::size_t rows = state.empty() ? 0 : 2;
  return {pages * kv.page_bytes(), rows, rows * state.row_bytes()};
}

std::string limit_text(const MemorySplit& split, const MemoryBudget& budget) {
  if (split.row_bytes == 0 || split.row_count >= budget.max_sequences) return "";
  return "; at most " + std::to_string(split.row_count) + " sequences run at once";
}

constexpr const char* kPrefaulted = "; taken from the system at the start";

// One budget for padded slots of both kinds, if that is possible.
std::optional<MemorySplit> share_one_budget(const MemoryBudget& budget, KvLayout kv,
                                            StateLayout state) {
  const std::size_t granularity = budget.release_granularity;
  if (kv.layers.empty() || state.empty() || budget.state_share >= 0 || granularity == 0)
    return std::nullopt;
  const std::size_t packed_page = kv.page_bytes();
  const std::size_t packed_row = state.row_bytes();
  kv.slot_alignment = state.slot_alignment = granularity;
  const auto wasteful = [](std::size_t padded, std::size_t packed) {
    return padded - packed > padded / 8;
  };
  if (wasteful(kv.page_bytes(), packed_page) || wasteful(state.row_bytes(), packed_row) ||
      budget.bytes < least_of(budget, kv, state).bytes())
    return std::nullopt;

  MemorySplit split{};
  split.page_bytes = kv.page_bytes();
  split.row_bytes = state.row_bytes();
  split.page_count = slots(budget.bytes, split.page_bytes);
  split.row_count = slots(budget.bytes, split.row_bytes);
  split.shared_bytes = budget.bytes;
  split.slot_alignment = granularity;
  split.explanation = "one budget of " + size_text(budget.bytes) + " for at most " +
                      std::to_string(split.page_count) + " pages of " +
                      std::to_string(kv.page_size) + " tokens (" + size_text(split.page_bytes) +
                      " each) or " + std::to_string(split.row_count) + " states (" +
                      size_text(split.row_bytes) + " each)" + limit_text(split, budget);
  if (budget.prefault) {
    split.warm_rows = slots(budget.bytes / 2, split.row_bytes);
    split.warm_pages = slots(budget.bytes - split.warm_rows * split.row_bytes, split.page_bytes);
    split.explanation += kPrefaulted;
  }
  return split;
}

}  // namespace

Result<MemorySplit> split_memory(const MemoryBudget& budget, const KvLayout& kv,
                                 const StateLayout& state) {
  if (auto shared = share_one_budget(budget, kv, state)) return *std::move(shared);

  const bool has_pages = !kv.layers.empty();
  const bool has_rows = !state.empty();
  MemorySplit split{};
  split.page_bytes = kv.page_bytes();
  split.row_bytes = state.row_bytes();
  const Least least = least_of(budget, kv, state);
  if (budget.bytes < least.bytes()) {
    return fail(ErrorCode::memory_budget_too_small,
                {{"budget", size_text(budget.bytes)},
                 {"context", std::to_string(budget.context_length)},
                 {"rows", std::to_string(least.rows)},
                 {"needed", size_text(least.bytes())}});
  }

  std::size_t row_share = 0;  // bytes
  const char* rule = "all for pages: no recurrent layers";
  if (has_rows && !has_pages) {
    row_share = budget.bytes;
    rule = "all for state rows: no attention layers";
  } else if (has_rows && budget.state_share >= 0) {
    row_share = static_cast<std::size_t>(static_cast<double>(budget.bytes) *
                                         std::min(budget.state_share, 1.0));
    row_share = std::clamp(row_share, least.row_bytes, budget.bytes - least.page_bytes);
    rule = "the share for state rows as asked, with room for one context";
  } else if (has_rows) {
    const std::size_t spare = budget.bytes - least.bytes();
    const std::size_t other_rows = budget.max_sequences > 1 ? budget.max_sequences - 1 : 0;
    const std::size_t running = std::min(other_rows, spare / 2 / split.row_bytes) * split.row_bytes;
    row_share = least.row_bytes + running + (spare - running) / 2;
    rule =
        budget.release_granularity == 0
            ? "one context and the running sequences first, the rest in halves"
            : "two pools, since padding slots to the machine's memory pages would cost too much: one "
              "context and the running sequences first, the rest in halves";
  }
  split.row_count = slots(row_share, split.row_bytes);
  split.page_count = slots(budget.bytes - split.row_count * split.row_bytes, split.page_bytes);

  split.explanation = size_text(budget.bytes) + ": ";
  if (has_pages) {
    split.explanation += std::to_string(split.page_count) + " pages of " +
                         std::to_string(kv.page_size) + " tokens (" +
                         size_text(split.page_count * split.page_bytes) + ")";
  }
  if (has_rows) {
    split.explanation += (has_pages ? ", " : "") + std::to_string(split.row_count) +
                         " state rows (" + size_text(split.row_count * split.row_bytes) + ")";
  }
  split.explanation += std::string("; ") + rule + limit_text(split, budget);
  if (budget.prefault) {
    split.warm_pages = split.page_count;
    split.warm_rows = split.row_count;
    split.explanation += kPrefaulted;
  }
  return split;
}

}  // namespace stemma
