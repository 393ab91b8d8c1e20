// The memory of the CPU device: mappings, the arena, pages and state rows.

#include "compute/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "compute/cpu/cpu_buffers.h"
#include "compute/cpu/cpu_device.h"

namespace stemma {
namespace {

TEST(Mapping, IsZeroedAndAligned) {
  const Mapping mapping = Mapping::create(3, 1000, "test").value();
  ASSERT_EQ(mapping.size(), 3000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping.data()) % kCacheLine, 0u);
  for (std::size_t i = 0; i < mapping.size(); ++i) ASSERT_EQ(mapping.data()[i], std::byte{0});
  EXPECT_EQ(Mapping::create(0, 1000, "test").value().size(), 0u);
}

TEST(Mapping, HugeSizesAreErrors) {
  constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();
  for (const auto& [count, size] : {std::pair{kMax, kMax}, std::pair{kMax / 2, std::size_t{2}},
                                   std::pair{std::size_t{1} << 62, std::size_t{1}}}) {
    const Result<Mapping> mapping = Mapping::create(count, size, "pages");
    ASSERT_FALSE(mapping.has_value());
    EXPECT_EQ(mapping.error().code(), ErrorCode::out_of_memory);
    EXPECT_NE(mapping.error().message().find("pages"), std::string::npos);
  }
}

// Bytes of a mapping that are in memory.
std::size_t resident(const Mapping& mapping) {
  const std::size_t page = machine_page_bytes();
  std::vector<unsigned char> pages((mapping.size() + page - 1) / page);
  EXPECT_EQ(mincore(mapping.data(), mapping.size(), pages.data()), 0);
  return static_cast<std::size_t>(
             std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; })) *
         page;
}

TEST(Mapping, TakesMemoryAsItIsWrittenAndGivesItBack) {
  const std::size_t page = machine_page_bytes();
  Mapping mapping = Mapping::create(4096, page, "test", Residency::as_written).value();
  EXPECT_EQ(resident(mapping), 0u);
  std::memset(mapping.data() + 7 * page, 1, 3 * page);
  EXPECT_EQ(resident(mapping), 3 * page);
  mapping.release(7 * page + 1, 3 * page - 1);  // all but the first byte: the first page stays
  EXPECT_EQ(resident(mapping), page);
  EXPECT_EQ(mapping.data()[7 * page], std::byte{1});
  EXPECT_EQ(mapping.data()[8 * page], std::byte{0});
}

TEST(Mapping, CanTakeItsMemoryBeforeItIsWritten) {
  const std::size_t page = machine_page_bytes();
  Mapping mapping = Mapping::create(64, page, "test", Residency::as_written).value();
  mapping.populate(7 * page + 1);
  EXPECT_EQ(resident(mapping), 8 * page);
}

TEST(Arena, ReusesItsMemoryFromTheSecondStepOn) {
  Arena arena;
  const auto step = [&] {
    std::vector<std::byte*> places;
    for (const std::size_t bytes : {100, 5'000'000, 64, 3'000'000, 1}) {
      const Arena::Mark before = arena.mark();
      std::memset(arena.allocate(bytes), 1, bytes);
      arena.release(before);
      places.push_back(arena.allocate(bytes));
      std::memset(places.back(), 2, bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(places.back()) % kCacheLine, 0u);
    }
    arena.release({0, 0});
    return places;
  };
  step();
  const std::vector<std::byte*> second = step();
  const std::size_t capacity = arena.capacity();
  EXPECT_EQ(step(), second);
  EXPECT_EQ(arena.capacity(), capacity);
}

KvLayout odd_layout() {
  return {.layers = {{5, 3}, {1, 7}}, .k_type = DType::f16, .v_type = DType::f32, .page_size = 3};
}

TEST(Pages, HoldWhatWasWrittenAndCopyRowsOnly) {
  const auto device = make_cpu_device({.threads = 1});
  const auto buffer = device->make_pages(odd_layout(), 2).value();
  auto& pages = static_cast<CpuPageBuffer&>(*buffer);
  const PageId from{0}, to{1};
  const auto value = [](int layer, int slot, int i) { return static_cast<float>(100 * layer + 10 * slot + i); };
  for (int layer = 0; layer < 2; ++layer) {
    for (int slot = 0; slot < 3; ++slot) {
      std::vector<float> k, v;
      for (int i = 0; i < odd_layout().layers[static_cast<std::size_t>(layer)].k_cols; ++i) {
        k.push_back(value(layer, slot, i));
      }
      for (int i = 0; i < odd_layout().layers[static_cast<std::size_t>(layer)].v_cols; ++i) {
        v.push_back(-value(layer, slot, i));
      }
      pages.write(layer, from, slot, k.data(), v.data());
    }
  }
  pages.copy_page(from, to, 2);
  const PageId copy[] = {to};
  for (int layer = 0; layer < 2; ++layer) {
    const auto cols = odd_layout().layers[static_cast<std::size_t>(layer)].v_cols;
    const kernels::KvRows rows = pages.v_rows(layer, 0, cols, copy);
    for (std::size_t slot = 0; slot < 3; ++slot) {
      for (int i = 0; i < cols; ++i) {
        float found = 0;
        std::memcpy(&found, rows.row(slot) + static_cast<std::size_t>(i) * sizeof(float), sizeof(float));
        EXPECT_EQ(found, slot < 2 ? -value(layer, static_cast<int>(slot), i) : 0.0f);
      }
    }
  }
}

TEST(Pages, AlignedOnesAreReleasedWhollyAndNoOther) {
  const auto device = make_cpu_device({.threads = 1});
  ASSERT_EQ(device->release_granularity(), machine_page_bytes());
  KvLayout layout = odd_layout();
  layout.slot_alignment = device->release_granularity();
  EXPECT_EQ(layout.page_bytes(), machine_page_bytes());
  const auto buffer = device->make_pages(layout, 3).value();
  auto& pages = static_cast<CpuPageBuffer&>(*buffer);
  const float ones[] = {1, 1, 1, 1, 1, 1, 1};
  for (const PageId page : {PageId{0}, PageId{1}, PageId{2}}) pages.write(1, page, 2, ones, ones);
  pages.release(PageId{1});
  for (const PageId page : {PageId{0}, PageId{1}, PageId{2}}) {
    const PageId table[] = {page};
    float found = 0;
    std::memcpy(&found, pages.v_rows(1, 0, 7, table).row(2), sizeof found);
    EXPECT_EQ(found, page == PageId{1} ? 0.0f : 1.0f);
  }
}

TEST(Pages, TooManyAreAnError) {
  const auto device = make_cpu_device({.threads = 1});
  const auto pages = device->make_pages(odd_layout(), std::numeric_limits<std::size_t>::max() / 2);
  ASSERT_FALSE(pages.has_value());
  EXPECT_EQ(pages.error().code(), ErrorCode::out_of_memory);
}

TEST(States, ClearAndCopy) {
  const auto device = make_cpu_device({.threads = 1});
  StateLayout layout;
  layout.add_layer(3, 10, 2, 4, 5);
  layout.add_layer(1, 7, 0, 0, 0);
  EXPECT_EQ(layout.row_floats % 16, 0);
  EXPECT_EQ(layout.layers[1].conv_offset % 16, 0);
  const auto buffer = device->make_states(layout, 3).value();
  auto& states = static_cast<CpuStateBuffer&>(*buffer);
  const auto floats = static_cast<std::size_t>(layout.row_floats);
  for (std::size_t i = 0; i < floats; ++i) states.row(RowId{0})[i] = static_cast<float>(i) + 1;
  states.copy_row(RowId{0}, RowId{2});
  states.clear_row(RowId{0});
  for (std::size_t i = 0; i < floats; ++i) {
    EXPECT_EQ(states.row(RowId{0})[i], 0.0f);
    EXPECT_EQ(states.row(RowId{1})[i], 0.0f);
    EXPECT_EQ(states.row(RowId{2})[i], static_cast<float>(i) + 1);
  }
}

}  // namespace
}  // namespace stemma
