// A file that appears whole or not at all: written under a temporary name beside its target and renamed when it is
// complete. Destroyed before commit(), it leaves nothing behind. Names that end in ".gz" are compressed.
//
// A rename replaces whatever has the name, so the target is a regular file or nothing yet; symbolic links are followed
// and stay.
#pragma once

#include <string>
#include <string_view>

struct gzFile_s;

namespace meshweave {

// The file that writing to `path` creates or replaces: `path` with its symbolic links followed. Throws IoError where
// something that is no regular file stands there, or the file behind standard output or error, and where the folder
// takes no file.
std::string file_to_replace(const std::string& path);

class AtomicFile {
 public:
  explicit AtomicFile(std::string path);  // throws IoError
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);  // throws IoError
  void commit();                       // throws IoError

 private:
  [[noreturn]] void fail(std::string_view what);

  std::string path_;  // as the caller names it
  std::string target_;
  std::string temporary_;
  gzFile_s* file_ = nullptr;
};

}  // namespace meshweave
