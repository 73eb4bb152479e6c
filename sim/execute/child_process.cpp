#include "sim/execute/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "sim/base/error.h"

namespace meshweave {
namespace {

enum class Outcome : char { result = 'r', interrupted = 'i', failed = 'f' };

constexpr int poll_interval_ms = 50;
constexpr int exit_of_a_bug = 70;
constexpr int pipe_bytes = 1 << 20;

class PipeWriter {
 public:
  explicit PipeWriter(int fd) : fd_(fd) {}

  void bytes(const void* data, std::size_t size) {
    const char* next = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(fd_, next, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw IoError("the parent of a replay has gone");
      next += written;
      size -= static_cast<std::size_t>(written);
    }
  }
  template <typename T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes(&v, sizeof v);
  }
  template <typename T>
  void values(const std::vector<T>& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    value(v.size());
    bytes(v.data(), v.size() * sizeof(T));
  }
  void text(const std::string& v) {
    value(v.size());
    bytes(v.data(), v.size());
  }

 private:
  int fd_;
};

// Reads what PipeWriter wrote, and looks at the interrupt flag while it waits.
class PipeReader {
 public:
  PipeReader(int fd, const InterruptFlag* interrupt) : fd_(fd), interrupt_(interrupt) {}

  // False at the end of the pipe.
  bool bytes(void* data, std::size_t size) {
    char* next = static_cast<char*>(data);
    while (size > 0) {
      await();
      const ssize_t got = ::read(fd_, next, size);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      next += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }
  template <typename T>
  bool value(T& v) {
    return bytes(&v, sizeof v);
  }
  template <typename Container>
  bool values(Container& v) {
    std::size_t size = 0;
    if (!value(size)) return false;
    v.resize(size);
    return bytes(v.data(), size * sizeof(typename Container::value_type));
  }

 private:
  void await() {
    pollfd waiting{fd_, POLLIN, 0};
    while (::poll(&waiting, 1, poll_interval_ms) <= 0) {
      if (interrupt_ != nullptr && *interrupt_ != 0) throw Interrupted();
    }
  }

  int fd_;
  const InterruptFlag* interrupt_;
};

void write_result(PipeWriter& pipe, const ReplayResult& result) {
  pipe.value(Outcome::result);
  pipe.value(result.step);
  pipe.value(result.begin);
  pipe.value(result.end);
  pipe.value(result.events);
  pipe.value(result.timelines.size());
  for (const RankTimeline& timeline : result.timelines) {
    pipe.value(timeline.rank);
    pipe.values(timeline.slices);
  }
  pipe.value(result.links.size());
  for (const LinkUse& link : result.links) {
    pipe.text(link.link);
    pipe.value(link.bytes);
    pipe.value(link.bytes_per_s);
  }
}

bool read_result(PipeReader& pipe, ReplayResult& result) {
  std::size_t count = 0;
  bool ok = pipe.value(result.step) && pipe.value(result.begin) && pipe.value(result.end) &&
            pipe.value(result.events) && pipe.value(count);
  if (!ok) return false;
  result.timelines.resize(count);
  for (RankTimeline& timeline : result.timelines) {
    ok = ok && pipe.value(timeline.rank) && pipe.values(timeline.slices);
  }
  if (!ok || !pipe.value(count)) return false;
  result.links.resize(count);
  for (LinkUse& link : result.links) {
    ok = ok && pipe.values(link.link) && pipe.value(link.bytes) && pipe.value(link.bytes_per_s);
  }
  return ok;
}

[[noreturn]] void run_as_child(const std::function<ReplayResult()>& work, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);
  PipeWriter pipe(fd);
  try {
    try {
      write_result(pipe, work());
    } catch (const Interrupted&) {
      pipe.value(Outcome::interrupted);
    } catch (const std::exception& error) {
      pipe.value(Outcome::failed);
      pipe.text(error.what());
    }
  } catch (const IoError&) {
    ::_exit(1);  // nobody listens
  }
  ::_exit(0);
}

// Ends and reaps the child when the parent leaves, whichever way.
class Child {
 public:
  Child(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    ::close(fd_);
  }

  int fd() const { return fd_; }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
  int fd_;
};

[[noreturn]] void report_silent_end(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == exit_of_a_bug) bug("a replay in a child process met a bug");
  if (WIFSIGNALED(status)) {
    throw IoError(fmt::format("the replay's child process was ended by signal {} ({})", WTERMSIG(status),
                              strsignal(WTERMSIG(status))));
  }
  throw IoError(fmt::format("the replay's child process ended with exit code {} and no result", WEXITSTATUS(status)));
}

}  // namespace

ReplayResult replay_in_child(const std::function<ReplayResult()>& work, const InterruptFlag* interrupt) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError(fmt::format("no pipe for a replay: {}", std::strerror(errno)));
  ::fcntl(ends[1], F_SETPIPE_SZ, pipe_bytes);  // a larger buffer is only faster
  std::fflush(nullptr);                        // what is buffered must not be written by the child too: SimGrid flushes
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    run_as_child(work, ends[1]);
  }
  ::close(ends[1]);
  if (pid < 0) {
    const int reason = errno;
    ::close(ends[0]);
    throw IoError(fmt::format("no process for a replay: {}", std::strerror(reason)));
  }
  Child child(pid, ends[0]);
  PipeReader pipe(child.fd(), interrupt);
  Outcome outcome = Outcome::failed;
  ReplayResult result;
  std::string message;
  bool complete = pipe.value(outcome);
  if (complete && outcome == Outcome::result) complete = read_result(pipe, result);
  if (complete && outcome == Outcome::failed) complete = pipe.values(message);
  const int status = child.wait();
  if (!complete) report_silent_end(status);
  if (outcome == Outcome::interrupted) throw Interrupted();
  if (outcome == Outcome::failed) throw std::runtime_error(message);
  return result;
}

}  // namespace meshweave
