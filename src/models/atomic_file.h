#pragma once
// A file that appears whole or not at all: written under a temporary name beside its own, renamed by commit().
//
// Invariants: until commit() succeeds nothing exists under the final name that did not before; if the object dies
// earlier, the temporary is removed. One thread.

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "core/result.h"

namespace stemma {

class AtomicFile {
 public:
  // Errors of all three: `file_write_failed`, with the system's reason.
  static Result<AtomicFile> create(const std::string& path);
  Status write(std::span<const std::byte> bytes);
  Status commit();  // flushes to disk and renames

  AtomicFile(AtomicFile&&) = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  AtomicFile(std::string path, std::string temporary, std::FILE* file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}
  tl::unexpected<Error> failed() const;  // with errno's reason

  std::string path_;
  std::string temporary_;
  std::unique_ptr<std::FILE, Closer> file_;  // null once committed
};

}  // namespace stemma
