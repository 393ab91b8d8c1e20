#include "compute/cpu/cpu_buffers.h"

#include <algorithm>
#include <cstring>

#include "compute/cpu/checked.h"
#include "compute/cpu/kernels/rows.h"
#include "compute/dtype.h"

namespace stemma {

namespace {

Residency residency_of(std::size_t slot_alignment) {
  return slot_alignment % machine_page_bytes() == 0 ? Residency::as_written : Residency::in_blocks;
}

}  // namespace

CpuPageBuffer::CpuPageBuffer(const KvLayout& layout, std::size_t page_count)
    : layout_(layout), page_count_(page_count), page_bytes_(layout.page_bytes()) {
  const auto slots = static_cast<std::size_t>(layout.page_size);
  std::size_t offset = 0;
  for (const KvLayout::Layer& layer : layout.layers) {
    Place place{};
    place.k_offset = offset;
    place.k_row = row_bytes(layout.k_type, layer.k_cols);
    place.v_offset = round_up(place.k_offset + slots * place.k_row, sizeof(float));
    place.v_row = row_bytes(layout.v_type, layer.v_cols);
    offset = round_up(place.v_offset + slots * place.v_row, sizeof(float));
    places_.push_back(place);
  }
  STEMMA_ASSERT(offset <= page_bytes_);
}

Result<std::unique_ptr<PageBuffer>> CpuPageBuffer::create(const KvLayout& layout, std::size_t page_count) {
  std::unique_ptr<CpuPageBuffer> buffer(new CpuPageBuffer(layout, page_count));
  STEMMA_TRY(buffer->memory_, Mapping::create(page_count, buffer->page_bytes_, "pages",
                                              residency_of(layout.slot_alignment)));
  return buffer;
}

void CpuPageBuffer::release(PageId id) {
  STEMMA_ASSERT(index_of(id) < page_count_);
  memory_.release(index_of(id) * page_bytes_, page_bytes_);
}

void CpuPageBuffer::populate(std::size_t count) {
  STEMMA_ASSERT(count <= page_count_);
  memory_.populate(count * page_bytes_);
}

void CpuPageBuffer::copy_page(PageId from, PageId to, int slots) {
  STEMMA_ASSERT(index_of(from) < page_count_ && index_of(to) < page_count_ && from != to);
  STEMMA_ASSERT(slots >= 0 && slots <= layout_.page_size);
  const auto count = static_cast<std::size_t>(slots);
  for (const Place& place : places_) {
    std::memcpy(page(to) + place.k_offset, page(from) + place.k_offset, count * place.k_row);
    std::memcpy(page(to) + place.v_offset, page(from) + place.v_offset, count * place.v_row);
  }
}

kernels::KvRows CpuPageBuffer::rows(std::size_t offset, std::size_t stride, DType type, std::int64_t first,
                                    std::int64_t size, std::span<const PageId> pages) const {
  return {.base = memory_.data() + offset + row_bytes(type, first),
          .page_stride = page_bytes_,
          .row_stride = stride,
          .pages = pages,
          .page_size = static_cast<std::size_t>(layout_.page_size),
          .half = type == DType::f16,
          .size = static_cast<std::size_t>(size)};
}

kernels::KvRows CpuPageBuffer::k_rows(int layer, std::int64_t first, std::int64_t size,
                                      std::span<const PageId> pages) const {
  const Place& place = places_[static_cast<std::size_t>(layer)];
  return rows(place.k_offset, place.k_row, layout_.k_type, first, size, pages);
}

kernels::KvRows CpuPageBuffer::v_rows(int layer, std::int64_t first, std::int64_t size,
                                      std::span<const PageId> pages) const {
  const Place& place = places_[static_cast<std::size_t>(layer)];
  return rows(place.v_offset, place.v_row, layout_.v_type, first, size, pages);
}

void CpuPageBuffer::write(int layer, PageId id, int slot, const float* k, const float* v) {
  STEMMA_ASSERT(index_of(id) < page_count_ && slot >= 0 && slot < layout_.page_size);
  const Place& place = places_[static_cast<std::size_t>(layer)];
  const auto at = static_cast<std::size_t>(slot);
  const auto store = [](DType type, const float* source, std::size_t bytes, std::byte* target) {
    if (type == DType::f16) {
      kernels::to_f16(source, bytes / sizeof(std::uint16_t), reinterpret_cast<std::uint16_t*>(target));
    } else {
      std::memcpy(target, source, bytes);
    }
  };
  store(layout_.k_type, k, place.k_row, page(id) + place.k_offset + at * place.k_row);
  store(layout_.v_type, v, place.v_row, page(id) + place.v_offset + at * place.v_row);
}

Result<std::unique_ptr<StateBuffer>> CpuStateBuffer::create(const StateLayout& layout, std::size_t row_count) {
  std::unique_ptr<CpuStateBuffer> buffer(new CpuStateBuffer(layout, row_count));
  STEMMA_TRY(buffer->memory_, Mapping::create(row_count, buffer->row_bytes_, "state rows",
                                              residency_of(layout.slot_alignment)));
  return buffer;
}

void CpuStateBuffer::release(RowId id) {
  STEMMA_ASSERT(index_of(id) < row_count_);
  memory_.release(index_of(id) * row_bytes_, row_bytes_);
}

void CpuStateBuffer::populate(std::size_t count) {
  STEMMA_ASSERT(count <= row_count_);
  memory_.populate(count * row_bytes_);
}

void CpuStateBuffer::clear_row(RowId id) {
  STEMMA_ASSERT(index_of(id) < row_count_);
  std::fill_n(row(id), layout_.row_floats, 0.0f);  // also of no bytes at no address: models without states
}

void CpuStateBuffer::copy_row(RowId from, RowId to) {
  STEMMA_ASSERT(index_of(from) < row_count_ && index_of(to) < row_count_);
  if (from != to) std::copy_n(row(from), layout_.row_floats, row(to));
}

}  // namespace stemma
