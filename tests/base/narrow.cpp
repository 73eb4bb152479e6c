// Numbers in narrower types, and the end of the program for those that do not fit.
#include "sim/base/narrow.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>

using namespace meshweave;

namespace {

struct End {
  int exit_code = 0;
  std::string text;  // on standard error
};

// How a process ends that does nothing but `body`.
template <typename Body>
End end_of(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  End end;
  char buffer[256];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    end.text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace

TEST_CASE("A number that fits is kept") {
  CHECK(narrow<std::uint8_t>(std::size_t{255}, "streams") == 255);
  CHECK(narrow<std::uint8_t>(0, "streams") == 0);
  CHECK(narrow<std::int16_t>(std::int64_t{-32768}, "layer") == -32768);
  CHECK(narrow<std::int16_t>(32767u, "layer") == 32767);
}

TEST_CASE("A number that does not fit ends the program by its name") {
  const End above = end_of([] { narrow<std::uint8_t>(std::size_t{256}, "streams"); });
  CHECK(above.exit_code == 70);
  CHECK(above.text.find("this is a bug in meshweave: streams: 256 is not within 0 and 255 (") == 0);
  const End below = end_of([] { narrow<std::uint16_t>(-1, "groups"); });
  CHECK(below.exit_code == 70);
  CHECK(below.text.find("this is a bug in meshweave: groups: -1 is not within 0 and 65535 (") == 0);
  CHECK(end_of([] { narrow<std::int16_t>(32768u, "layer"); }).exit_code == 70);
}
