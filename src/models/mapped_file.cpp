#include "models/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace stemma {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for its writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    return fail(ErrorCode::gguf_not_found, {{"file", path}, {"reason", error_text(errno)}});
  }
  struct stat status;
  if (::fstat(file.fd, &status) != 0) {
    return fail(ErrorCode::gguf_not_found, {{"file", path}, {"reason", error_text(errno)}});
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::gguf_not_found, {{"file", path}, {"reason", "it is not a regular file"}});
  }
  if (status.st_size == 0) return MappedFile({});
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, {{"bytes", std::to_string(size)}, {"what", "mapping " + path}});
  }
  return MappedFile({static_cast<const std::byte*>(data), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace stemma
