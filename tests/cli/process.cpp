#include "tests/cli/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace meshweave::testing {
namespace {

namespace fs = std::filesystem;

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

int written_file(const std::string& path) { return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); }

pid_t start(const std::vector<std::string>& arguments, int out, const std::string& err) {
  std::vector<char*> argv{const_cast<char*>(MESHWEAVE_BINARY)};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(written_file(err), STDERR_FILENO);
    execv(MESHWEAVE_BINARY, argv.data());
    _exit(127);
  }
  close(out);
  return child;
}

Finished finish(pid_t child, const std::string& out, const std::string& err) {
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content_of(out), content_of(err), 0};
}

}  // namespace

Finished meshweave_command(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::string out = folder.file("out"), err = folder.file("err");
  return finish(start(arguments, written_file(out), err), out, err);
}

Finished unread_command(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  close(ends[0]);
  const std::string err = folder.file("err");
  return finish(start(arguments, ends[1], err), folder.file("no out"), err);
}

Finished interrupted_command(const std::vector<std::string>& arguments, int milliseconds, int signal) {
  const TemporaryFolder folder;
  const std::string out = folder.file("out"), err = folder.file("err");
  const pid_t child = start(arguments, written_file(out), err);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  const auto begin = std::chrono::steady_clock::now();
  kill(child, signal);
  Finished finished = finish(child, out, err);
  finished.reaction_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return finished;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "meshweave-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& content) const {
  std::ofstream(file(name), std::ios::binary) << content;
  return file(name);
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace meshweave::testing
