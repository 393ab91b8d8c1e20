#include "cache/chunked.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stemma {
namespace {

TEST(Chunked, KeepsItsValuesWhileItGrows) {
  Chunked<int> values;
  for (int i = 0; i < 5000; ++i) values.push_back(i);
  ASSERT_EQ(values.size(), 5000u);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
  for (int i = 0; i < 4990; ++i) values.pop_back();
  EXPECT_EQ(values.size(), 10u);
  EXPECT_EQ(values.back(), 9);
}

TEST(Chunked, NewValuesAreTheDefault) {
  Chunked<int> values;
  values.grow_to(3);
  values[2] = 7;
  values.grow_to(2);  // no fewer than there are
  values.grow_to(3000);
  EXPECT_EQ(values.size(), 3000u);
  EXPECT_EQ(values[2], 7);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2999], 0);
  values.pop_back();
  values.push_back(5);
  values.pop_back();
  values.grow_to(3000);
  EXPECT_EQ(values[2999], 0);
}

TEST(Chunked, MovesNothingBeyondTheFirstChunk) {
  Chunked<int> values;
  values.grow_to(1024);
  const int* const first = &values[0];
  values.grow_to(1 << 20);
  EXPECT_EQ(&values[0], first);
}

// At most a quarter unused while small, then at most a chunk.
TEST(Chunked, TakesLittleMoreThanItsValues) {
  Chunked<int> values;
  EXPECT_EQ(values.metadata_bytes(), 0u);
  for (std::size_t size : {std::size_t{100}, std::size_t{1000}, std::size_t{100'000}}) {
    while (values.size() < size) values.push_back(1);
    EXPECT_GE(values.metadata_bytes(), size * sizeof(int));
    EXPECT_LE(values.metadata_bytes(),
              (size + std::min<std::size_t>(size / 4, 1024)) * 4 + size / 32 + 64);
  }
}

}  // namespace
}  // namespace stemma
