// Runs the built command in a child process and captures what it prints.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace meshweave::testing {

struct Finished {
  int code = -1;  // exit code; 128 + signal where one ended it
  std::string out, err;
  double reaction_s = 0;  // of an interrupted command: from the signal to its end
};

// The command meshweave with these arguments.
Finished meshweave_command(const std::vector<std::string>& arguments);
// The same with a standard output that nobody reads.
Finished unread_command(const std::vector<std::string>& arguments);
// The same, interrupted by a signal after `milliseconds`.
Finished interrupted_command(const std::vector<std::string>& arguments, int milliseconds, int signal = SIGINT);

// A model of 8 layers on two nodes, quick to simulate.
inline const std::string small_scenario = R"({
  "name": "small",
  "cluster": { "node": "hgx-h100", "nodes": 2, "fabric": "rail-400g" },
  "model": { "language": { "hidden": 1024, "layers": 8, "heads": 16, "vocabulary": 32000, "sequence": 1024 } },
  "batch": { "global": 32, "micro": 1 },
  "layout": { "language": { "tp": 2, "pp": 4, "dp": 2, "zero": 1 } }
})";

// A folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const;
  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;  // of the files in it, sorted

 private:
  std::string path_;
};

}  // namespace meshweave::testing
