#include "sim/trace/atomic_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sim/base/error.h"

namespace meshweave {

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  const bool compressed = path_.size() > 3 && path_.compare(path_.size() - 3, 3, ".gz") == 0;
  temporary_ = fmt::format("{}.{}.part", path_, getpid());
  errno = 0;
  file_ = gzopen(temporary_.c_str(), compressed ? "wb6" : "wbT");
  if (file_ == nullptr) fail("cannot be created");
  gzbuffer(file_, 1u << 18);
}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr) return;
  gzclose(file_);
  std::remove(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t part = bytes.size() < (1u << 30) ? bytes.size() : (1u << 30);
    errno = 0;
    if (gzwrite(file_, bytes.data(), static_cast<unsigned>(part)) != static_cast<int>(part)) {
      fail("cannot be written");
    }
    bytes.remove_prefix(part);
  }
}

void AtomicFile::commit() {
  errno = 0;
  const int closed = gzclose(file_);
  file_ = nullptr;
  if (closed != Z_OK || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary_.c_str());
    errno = error;
    fail("cannot be written");
  }
}

void AtomicFile::fail(std::string_view what) {
  const char* reason = errno != 0 ? std::strerror(errno) : "unknown reason";
  const std::string text = fmt::format("{}: {}: {}", path_, what, reason);
  if (file_ != nullptr) {
    gzclose(file_);
    file_ = nullptr;
    std::remove(temporary_.c_str());
  }
  throw IoError(text);
}

}  // namespace meshweave
