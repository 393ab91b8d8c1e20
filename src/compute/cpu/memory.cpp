#include "compute/cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

namespace stemma {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;  // also the smallest block of an arena

}  // namespace

std::size_t machine_page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

Result<Mapping> Mapping::create(std::size_t count, std::size_t size, std::string_view what,
                                Residency residency) {
  std::size_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(count, size, &bytes);
  if (!overflow && bytes == 0) return Mapping();
  void* address = overflow ? MAP_FAILED
                           : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    const std::string amount = overflow ? std::to_string(count) + " x " + std::to_string(size)
                                        : std::to_string(bytes);
    return fail(ErrorCode::out_of_memory, {{"bytes", amount}, {"what", std::string(what)}});
  }
#ifdef MADV_HUGEPAGE
  // Fewer address translations while kernels stream; a refusal only costs speed. Or none at all:
  // one byte written would take 2 MiB.
  if (residency == Residency::as_written) {
    madvise(address, bytes, MADV_NOHUGEPAGE);
  } else if (bytes >= kHugePage) {
    madvise(address, bytes, MADV_HUGEPAGE);
  }
#endif
  return Mapping({static_cast<std::byte*>(address), bytes});
}

void Mapping::release(std::size_t offset, std::size_t bytes) {
  const std::size_t page = machine_page_bytes();
  const std::size_t first = round_up(offset, page);
  const std::size_t last = (offset + bytes) / page * page;
  if (first < last) madvise(bytes_.data() + first, last - first, MADV_DONTNEED);
}

void Mapping::populate(std::size_t bytes) {
  const std::size_t page = machine_page_bytes();
  // Volatile: the bytes are zero already, and a compiler may know that.
  volatile std::byte* const first = bytes_.data();
  for (std::size_t offset = 0; offset < bytes; offset += page) first[offset] = std::byte{0};
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

std::byte* Arena::allocate(std::size_t bytes) {
  bytes = round_up(bytes, kCacheLine);
  while (block_ < blocks_.size() && blocks_[block_].size() - used_ < bytes) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    Result<Mapping> block = Mapping::create(1, std::max({bytes, capacity() / 2, kHugePage}), "a step");
    if (!block) throw std::bad_alloc();
    blocks_.push_back(std::move(*block));
  }
  std::byte* result = blocks_[block_].data() + used_;
  used_ += bytes;
  return result;
}

void Arena::release(Mark mark) {
  block_ = mark.block;
  used_ = mark.used;
  if (block_ == 0 && used_ == 0 && blocks_.size() > 1) {
    const std::size_t total = capacity();
    blocks_.clear();
    if (Result<Mapping> block = Mapping::create(1, total, "a step")) blocks_.push_back(std::move(*block));
  }
}

std::size_t Arena::capacity() const {
  std::size_t total = 0;
  for (const Mapping& block : blocks_) total += block.size();
  return total;
}

}  // namespace stemma
