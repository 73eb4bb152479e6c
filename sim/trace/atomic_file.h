// A file that appears whole or not at all: written under a temporary name beside its target and renamed when it is
// complete. Destroyed before commit(), it leaves nothing behind. Names that end in ".gz" are compressed.
#pragma once

#include <string>
#include <string_view>

struct gzFile_s;

namespace meshweave {

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

  std::string path_;
  std::string temporary_;
  gzFile_s* file_ = nullptr;
};

}  // namespace meshweave
