// How one budget becomes pages and rows.
//
// What must fit: the pages of one context and, in recurrent models, two rows (one that runs and one
// checkpoint to resume from). Of what is left, rows for the other sequences that may run are served
// first, from at most half of it: with fewer, they wait for each other. The rest is halved by
// bytes. Pages and checkpoints are worth nothing without each other: a hit needs both, and
// neither's need is known before requests come.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

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

}  // namespace

Result<MemorySplit> split_memory(const MemoryBudget& budget, const KvLayout& kv,
                                 const StateLayout& state) {
  const bool has_pages = !kv.layers.empty();
  const bool has_rows = !state.empty();
  MemorySplit split{};
  split.page_bytes = has_pages ? kv.bytes_per_token() * kv.page_size : 0;
  split.row_bytes = has_rows ? state.row_bytes() : 0;

  const std::size_t least_pages =
      has_pages
          ? (static_cast<std::size_t>(budget.context_length) + kv.page_size - 1) / kv.page_size
          : 0;
  const std::size_t least_rows = has_rows ? 2 : 0;
  const std::size_t least_page_bytes = least_pages * split.page_bytes;
  const std::size_t least_row_bytes = least_rows * split.row_bytes;
  if (budget.bytes < least_page_bytes + least_row_bytes) {
    return fail(ErrorCode::memory_budget_too_small,
                {{"budget", size_text(budget.bytes)},
                 {"context", std::to_string(budget.context_length)},
                 {"rows", std::to_string(least_rows)},
                 {"needed", size_text(least_page_bytes + least_row_bytes)}});
  }

  std::size_t row_share = 0;  // bytes
  const char* rule = "all for pages: no recurrent layers";
  if (has_rows && !has_pages) {
    row_share = budget.bytes;
    rule = "all for state rows: no attention layers";
  } else if (has_rows && budget.state_share >= 0) {
    row_share = static_cast<std::size_t>(static_cast<double>(budget.bytes) *
                                         std::min(budget.state_share, 1.0));
    row_share = std::clamp(row_share, least_row_bytes, budget.bytes - least_page_bytes);
    rule = "the share for state rows as asked, with room for one context";
  } else if (has_rows) {
    const std::size_t spare = budget.bytes - least_page_bytes - least_row_bytes;
    const std::size_t other_rows = budget.max_sequences > 1 ? budget.max_sequences - 1 : 0;
    const std::size_t running = std::min(other_rows, spare / 2 / split.row_bytes) * split.row_bytes;
    row_share = least_row_bytes + running + (spare - running) / 2;
    rule = "one context and the running sequences first, the rest in halves";
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
  split.explanation += std::string("; ") + rule;
  if (has_rows && split.row_count < budget.max_sequences) {
    split.explanation += "; at most " + std::to_string(split.row_count) + " sequences run at once";
  }
  return split;
}

}  // namespace stemma
