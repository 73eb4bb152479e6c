// A scenario lowered for emulation in tests.
#pragma once

#include "sim/emulate/emulate.h"
#include "sim/lower/lower.h"

namespace meshweave::testing {

struct PreparedProgram {
  Scenario scenario;
  Plan plan;
  Program program;
  Communicators communicators;
  std::vector<Waits> waits;
  std::vector<Liveness> liveness;

  explicit PreparedProgram(Scenario checked)
      : scenario(std::move(checked)), plan(make_plan(scenario)), program(lower(scenario, plan)) {
    derive();
  }
  PreparedProgram(const PreparedProgram&) = delete;

  // Again, behind a change of the program.
  void derive() {
    communicators = make_communicators(program);
    waits.clear();
    liveness.clear();
    for (const Body& body : program.bodies) {
      waits.push_back(derive_waits(program, body));
      liveness.push_back(derive_liveness(program, body, waits.back()));
    }
  }

  EmulationInput input() const { return {&scenario, &program, &communicators, &waits, &liveness}; }
};

}  // namespace meshweave::testing
