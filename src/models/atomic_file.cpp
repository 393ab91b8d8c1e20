#include "models/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace stemma {
namespace {

tl::unexpected<Error> write_error(const std::string& path) {
  return fail(ErrorCode::file_write_failed,
              {{"file", path}, {"reason", std::generic_category().message(errno)}});
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return write_error(path);
  std::FILE* file = ::fdopen(fd, "wb");
  if (file == nullptr) {
    ::close(fd);
    ::unlink(temporary.c_str());
    return write_error(path);
  }
  return AtomicFile(path, std::move(temporary), file);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};  // an empty span may have no address
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return failed();
  return {};
}

Status AtomicFile::commit() {
  constexpr mode_t kMode = 0644;  // mkstemp's is the owner's only
  if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0 ||
      ::fchmod(::fileno(file_.get()), kMode) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return failed();
  }
  file_.reset();
  return {};
}

AtomicFile::~AtomicFile() {
  if (file_) ::unlink(temporary_.c_str());
}

tl::unexpected<Error> AtomicFile::failed() const { return write_error(path_); }

}  // namespace stemma
