#include "sim/execute/flow_solver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace meshweave {
namespace {

using Make = FlowSolver* (*)(const std::vector<double>&);

Make load() {
  constexpr const char* file = MESHWEAVE_SIMGRID_MODULE;
  void* module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw IoError(fmt::format("{}: cannot be loaded: {}", file, dlerror()));
  void* make = dlsym(module, "meshweave_make_flow_solver");
  if (make == nullptr) throw IoError(fmt::format("{}: is not the module of this meshweave", file));
  return reinterpret_cast<Make>(make);
}

Make loaded() {
  static const Make make = load();
  return make;
}

}  // namespace

void load_flow_solver() { loaded(); }

std::unique_ptr<FlowSolver> make_flow_solver(const std::vector<double>& rates) {
  return std::unique_ptr<FlowSolver>(loaded()(rates));
}

}  // namespace meshweave
