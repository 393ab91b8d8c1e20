#pragma once
// A file mapped read-only into memory.
//
// Invariants: the mapping is of a regular file and lives as long as the object. The file must not be truncated
// meanwhile: reading a page past its new end would end the process. Threads: immutable, any. Cost: O(1), pages are
// read when they are touched.

#include <cstddef>
#include <span>
#include <string>

#include "core/result.h"

namespace stemma {

class MappedFile {
 public:
  // Errors: `gguf_not_found` (also for directories, devices and pipes), `out_of_memory`.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace stemma
