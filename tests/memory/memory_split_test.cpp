#include <string>

#include "gtest/gtest.h"
#include "memory/memory.h"

namespace stemma {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// 64 KiB a page.
KvLayout attention() {
  KvLayout kv;
  kv.layers = {{512, 512}, {512, 512}};
  kv.k_type = DType::f16;
  kv.v_type = DType::f16;
  kv.page_size = 16;
  return kv;
}

// 1 MiB and a little a row.
StateLayout recurrent() {
  StateLayout state;
  state.add_layer(3, 64, 16, 128, 128);
  return state;
}

std::size_t bytes_used(const MemorySplit& split) {
  return split.page_count * split.page_bytes + split.row_count * split.row_bytes;
}

TEST(MemorySplit, WithoutRecurrentLayersAllGoesToPages) {
  const MemorySplit split = split_memory({100 * kMiB, 8, 4096, -1}, attention(), {}).value();
  EXPECT_EQ(split.page_bytes, std::size_t{64} * 1024);
  EXPECT_EQ(split.page_count, 1600u);
  EXPECT_EQ(split.row_count, 0u);
  EXPECT_EQ(split.row_bytes, 0u);
  EXPECT_EQ(split.explanation,
            "100.0 MiB: 1600 pages of 16 tokens (100.0 MiB); all for pages: no recurrent layers");
}

TEST(MemorySplit, WithoutAttentionLayersAllGoesToRows) {
  const MemorySplit split = split_memory({100 * kMiB, 8, 4096, -1}, {}, recurrent()).value();
  EXPECT_EQ(split.page_count, 0u);
  EXPECT_EQ(split.row_count, 100 * kMiB / recurrent().row_bytes());
}

TEST(MemorySplit, HybridModelsServeContextAndSequencesFirstAndHalveTheRest) {
  const std::size_t row = recurrent().row_bytes();
  // Least: 256 pages (16 MiB) and 2 rows; 6 more rows for the sequences; then halves.
  const std::size_t budget = 16 * kMiB + 8 * row + 40 * kMiB;
  const MemorySplit split = split_memory({budget, 7, 4096, -1}, attention(), recurrent()).value();
  EXPECT_EQ(split.row_count, 8 + 20 * kMiB / row);
  EXPECT_GE(split.page_count, 256u + 320u);
  EXPECT_LE(bytes_used(split), budget);
  EXPECT_GT(bytes_used(split), budget - split.page_bytes) << "no whole page is left over";
}

TEST(MemorySplit, WhereRoomIsShortFewerSequencesRun) {
  const std::size_t row = recurrent().row_bytes();
  const MemorySplit split =
      split_memory({16 * kMiB + 12 * row, 64, 4096, -1}, attention(), recurrent()).value();
  EXPECT_GE(split.row_count, 7u);
  EXPECT_LE(split.row_count, 10u);
  EXPECT_GE(split.page_count, 256u);
  EXPECT_NE(split.explanation.find("sequences run at once"), std::string::npos)
      << split.explanation;
}

TEST(MemorySplit, AnAskedShareIsKeptAsFarAsOneContextFits) {
  const auto rows = [](double share) {
    return split_memory({100 * kMiB, 2, 4096, share}, attention(), recurrent()).value().row_count;
  };
  const std::size_t row = recurrent().row_bytes();
  EXPECT_EQ(rows(0.25), 25 * kMiB / row);
  EXPECT_EQ(rows(0), 2u);
  EXPECT_EQ(rows(1), 84 * kMiB / row);
}

TEST(MemorySplit, ABudgetThatIsTooSmallSaysWhatIsNeeded) {
  const std::size_t row = recurrent().row_bytes();
  const auto split = split_memory({16 * kMiB + 2 * row - 1, 8, 4096, -1}, attention(), recurrent());
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code(), ErrorCode::memory_budget_too_small);
  EXPECT_EQ(split.error().message(),
            "18.0 MiB of cache memory cannot hold one sequence of 4096 tokens and 2 state rows: "
            "18.0 MiB are needed");
  EXPECT_TRUE(split_memory({16 * kMiB + 2 * row, 8, 4096, -1}, attention(), recurrent()));
}

TEST(MemorySplit, WhereMemoryCanBeGivenBackPagesAndRowsShareOneBudget) {
  MemoryBudget budget{100 * kMiB, 8, 4096, -1, 4096};
  const MemorySplit split = split_memory(budget, attention(), recurrent()).value();
  EXPECT_EQ(split.shared_bytes, 100 * kMiB);
  EXPECT_EQ(split.slot_alignment, 4096u);
  EXPECT_EQ(split.page_bytes, std::size_t{64} * 1024);
  EXPECT_EQ(split.row_bytes % 4096, 0u);
  EXPECT_GE(split.row_bytes, recurrent().row_bytes());
  EXPECT_EQ(split.page_count, 1600u);
  EXPECT_EQ(split.row_count, 100 * kMiB / split.row_bytes);
  EXPECT_EQ(split.explanation,
            "one budget of 100.0 MiB for at most 1600 pages of 16 tokens (64.0 KiB each) or 99 "
            "states (1.0 MiB each)");

  budget.state_share = 0.5;
  EXPECT_EQ(split_memory(budget, attention(), recurrent())->shared_bytes, 0u) << "as asked";
  budget.state_share = -1;
  EXPECT_EQ(split_memory(budget, attention(), {})->shared_bytes, 0u) << "nothing to share with";
  EXPECT_EQ(split_memory(budget, {}, recurrent())->shared_bytes, 0u);
  budget.bytes = 16 * kMiB + 2 * split.row_bytes - 1;
  EXPECT_EQ(split_memory(budget, attention(), recurrent())->shared_bytes, 0u)
      << "without padding, one context fits";
  budget.bytes = 16 * kMiB + 2 * recurrent().row_bytes() - 1;
  EXPECT_EQ(split_memory(budget, attention(), recurrent()).error().code(),
            ErrorCode::memory_budget_too_small);
}

TEST(MemorySplit, WhatIsTakenFromTheSystemAtTheStartIsTheWholeBudgetAndNotMore) {
  MemoryBudget budget{100 * kMiB, 8, 4096, -1, 4096};
  const MemorySplit none = split_memory(budget, attention(), recurrent()).value();
  EXPECT_EQ(none.warm_pages, 0u);
  EXPECT_EQ(none.warm_rows, 0u);
  budget.prefault = true;
  const MemorySplit shared = split_memory(budget, attention(), recurrent()).value();
  EXPECT_EQ(shared.warm_rows, 50 * kMiB / shared.row_bytes);
  const std::size_t taken =
      shared.warm_pages * shared.page_bytes + shared.warm_rows * shared.row_bytes;
  EXPECT_LE(taken, 100 * kMiB);
  EXPECT_GT(taken, 100 * kMiB - shared.page_bytes);
  EXPECT_NE(shared.explanation.find("; taken from the system at the start"), std::string::npos);

  budget.state_share = 0.5;
  const MemorySplit two = split_memory(budget, attention(), recurrent()).value();
  EXPECT_EQ(two.warm_pages, two.page_count);
  EXPECT_EQ(two.warm_rows, two.row_count);
}

TEST(MemorySplit, SlotsThatPaddingWouldBloatAreNotShared) {
  KvLayout small = attention();
  small.page_size = 1;  // 4 KiB
  EXPECT_GT(split_memory({100 * kMiB, 8, 4096, -1, 4096}, small, recurrent())->shared_bytes, 0u);
  small.layers = {{256, 256}};  // 1 KiB
  const MemorySplit split =
      split_memory({100 * kMiB, 8, 4096, -1, 4096}, small, recurrent()).value();
  EXPECT_EQ(split.shared_bytes, 0u);
  EXPECT_EQ(split.page_bytes, 1024u);
  EXPECT_NE(split.explanation.find("padding slots"), std::string::npos)
      << split.explanation;
}

TEST(MemorySplit, CountsStayAddressable) {
  KvLayout tiny;
  tiny.layers = {{1, 1}};
  tiny.page_size = 1;
  const MemorySplit split = split_memory({std::size_t{1} << 40, 8, 4096, -1}, tiny, {}).value();
  EXPECT_EQ(split.page_count, 0xFFFFFFFEu);
}

}  // namespace
}  // namespace stemma
