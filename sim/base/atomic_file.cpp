#include "sim/base/atomic_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "sim/base/error.h"

namespace meshweave {
namespace {

namespace fs = std::filesystem;

std::string_view noun_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// What the symbolic links lead to; also what a link that leads nowhere names.
std::string follow_links(const std::string& path) {
  constexpr int most = 40;  // as the kernel
  fs::path at = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(at, error)); ++links) {
    if (links == most) throw IoError(fmt::format("{}: cannot be created: too many symbolic links", path));
    at = at.parent_path() / fs::read_symlink(at, error);
  }
  return at.string();
}

}  // namespace

std::string file_to_replace(const std::string& path) {
  // Asked before links are followed by name: those of /dev/stdout lead to names such as "pipe:[1234]".
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) {
    if (!S_ISREG(found.st_mode)) {
      const std::string kind = fs::path(path).extension().string();
      const std::string name = kind.empty() ? "trace.json.gz" : "file" + kind;
      throw IoError(fmt::format("{}: is {}; a regular file can be written, for example {}", path,
                                noun_of(found.st_mode),
                                S_ISDIR(found.st_mode) ? (fs::path(path) / name).string() : name));
    }
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      struct stat open {};
      if (fstat(stream, &open) == 0 && open.st_dev == found.st_dev && open.st_ino == found.st_ino) {
        throw IoError(fmt::format("{}: is where standard {} goes; a file of its own can be written", path,
                                  stream == STDOUT_FILENO ? "output" : "error"));
      }
    }
  }
  const std::string target = follow_links(path);
  const fs::path folder = fs::path(target).parent_path();
  if (::access(((folder.empty() ? fs::path(".") : folder) / ".").c_str(), W_OK) != 0) {
    throw IoError(fmt::format("{}: cannot be created: {}", path, std::strerror(errno)));
  }
  return target;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), target_(file_to_replace(path_)) {
  const bool compressed = path_.size() > 3 && path_.compare(path_.size() - 3, 3, ".gz") == 0;
  temporary_ = fmt::format("{}.{}.part", target_, getpid());
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
  if (closed != Z_OK || std::rename(temporary_.c_str(), target_.c_str()) != 0) {
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
