#include "sim/base/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sim/base/error.h"

using namespace meshweave;
namespace fs = std::filesystem;

namespace {

// An empty folder of its own, removed at the end.
struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("meshweave-base-" + std::to_string(::getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::size_t files() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {})); }
};

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// What writing a file of this name says.
std::string message(const fs::path& path) {
  try {
    AtomicFile file(path.string());
    file.write("new");
    file.commit();
  } catch (const IoError& error) {
    return error.what();
  }
  return "written";
}

}  // namespace

TEST_CASE("A file has its name when it is complete, and what it replaces stays until then") {
  const TemporaryFolder folder;
  const fs::path path = folder.path / "a.json";
  std::ofstream(path) << "old";
  {
    AtomicFile file(path.string());
    file.write("new");
    CHECK(content(path) == "old");
    CHECK(folder.files() == 2);  // the other under a temporary name
  }
  CHECK(content(path) == "old");
  CHECK(folder.files() == 1);
  CHECK(message(path) == "written");
  CHECK(content(path) == "new");
  CHECK(folder.files() == 1);
}

TEST_CASE("A name that ends in .gz is compressed") {
  const TemporaryFolder folder;
  CHECK(message(folder.path / "a.json.gz") == "written");
  CHECK(content(folder.path / "a.json.gz").substr(0, 2) == "\x1f\x8b");  // the magic number of gzip, RFC 1952
}

TEST_CASE("Only a regular file is replaced, symbolic links are followed and stay") {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message(pipe) == pipe.string() + ": is a pipe; a regular file can be written, for example trace.json.gz");
  fs::create_symlink("pipe", folder.path / "to-pipe");
  CHECK(message(folder.path / "to-pipe").find(": is a pipe; ") != std::string::npos);
  CHECK(fs::is_fifo(pipe));
  fs::create_directory(folder.path / "inner");
  CHECK(message(folder.path / "inner") == (folder.path / "inner").string() +
                                              ": is a folder; a regular file can be written, for example " +
                                              (folder.path / "inner/trace.json.gz").string());
  CHECK(message(folder.path / "missing" / "a.json").find(": cannot be created: ") != std::string::npos);
  CHECK(folder.files() == 3);

  // A link to a file, one to a file that is not there yet, and one to itself.
  std::ofstream(folder.path / "inner/old.json") << "old";
  fs::create_symlink("inner/old.json", folder.path / "to-old.json");
  fs::create_symlink("inner/new.json", folder.path / "to-new.json");
  fs::create_symlink("loop.json", folder.path / "loop.json");
  for (const char* name : {"old.json", "new.json"}) {
    const fs::path link = folder.path / (std::string("to-") + name);
    CHECK(message(link) == "written");
    CHECK(fs::is_symlink(link));
    CHECK(fs::is_regular_file(fs::symlink_status(folder.path / "inner" / name)));
    CHECK(content(link) == "new");
  }
  CHECK(message(folder.path / "loop.json").find("too many symbolic links") != std::string::npos);
  CHECK(folder.files() == 6);
  CHECK(std::distance(fs::directory_iterator(folder.path / "inner"), {}) == 2);
}
