#pragma once
// Pages and state rows in host memory.
//
// Pages: one after the other; in a page the layers in order, in a layer its K rows and then its V rows
// [K 0..page_size) [V 0..page_size). Rows of a page are contiguous, so a page is one run of bytes.
// State rows: one after the other, as StateLayout describes a row.
//
// Threads: copies are made between steps by the thread that runs them; kernels of a step write disjoint rows.

#include <cstddef>
#include <vector>

#include "compute/cpu/kernels/attention.h"
#include "compute/cpu/memory.h"
#include "compute/device.h"

namespace stemma {

class CpuPageBuffer final : public PageBuffer {
 public:
  static Result<std::unique_ptr<PageBuffer>> create(const KvLayout& layout, std::size_t page_count);

  void copy_page(PageId from, PageId to, int slots) override;
  void release(PageId page) override;
  void populate(std::size_t count) override;

  // The K (or V) rows of one head of one layer in a sequence's pages. The head's row is `size` elements from element
  // `first` of the layer's row.
  kernels::KvRows k_rows(int layer, std::int64_t first, std::int64_t size, std::span<const PageId> pages) const;
  kernels::KvRows v_rows(int layer, std::int64_t first, std::int64_t size, std::span<const PageId> pages) const;

  // Stores one token's K and V of a layer, converted to the cache's types.
  void write(int layer, PageId page, int slot, const float* k, const float* v);

  int page_size() const { return layout_.page_size; }
  const KvLayout& layout() const { return layout_; }
  std::size_t page_count() const { return page_count_; }

 private:
  // Where a layer's rows lie in a page, in bytes.
  struct Place {
    std::size_t k_offset;
    std::size_t k_row;
    std::size_t v_offset;
    std::size_t v_row;
  };

  CpuPageBuffer(const KvLayout& layout, std::size_t page_count);  // without its memory

  kernels::KvRows rows(std::size_t offset, std::size_t stride, DType type, std::int64_t first, std::int64_t size,
                       std::span<const PageId> pages) const;
  std::byte* page(PageId id) const { return memory_.data() + index_of(id) * page_bytes_; }

  KvLayout layout_;
  std::size_t page_count_;
  const std::size_t page_bytes_;
  std::vector<Place> places_;
  Mapping memory_;
};

class CpuStateBuffer final : public StateBuffer {
 public:
  static Result<std::unique_ptr<StateBuffer>> create(const StateLayout& layout, std::size_t row_count);

  void clear_row(RowId row) override;
  void copy_row(RowId from, RowId to) override;
  void release(RowId row) override;
  void populate(std::size_t count) override;

  float* row(RowId id) const {
    return reinterpret_cast<float*>(memory_.data() + index_of(id) * row_bytes_);
  }
  const StateLayout& layout() const { return layout_; }
  std::size_t row_count() const { return row_count_; }

 private:
  CpuStateBuffer(const StateLayout& layout, std::size_t row_count)
      : layout_(layout), row_bytes_(layout.row_bytes()), row_count_(row_count) {}

  StateLayout layout_;
  const std::size_t row_bytes_;
  std::size_t row_count_;
  Mapping memory_;
};

}  // namespace stemma
