// Random small programs with hand-made costs, free of deadlocks by construction: events (a kernel, a copy, a
// collective, a batch of messages) are drawn in one global order and appended to the bodies of all ranks that
// take part, so every rank issues them in the same order.
//
// The ranks form a grid of tp × dp × pp; all ranks of a pipeline stage share a body. Operands carry no
// meaning beyond the bytes that they touch.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/cost/costs.h"
#include "sim/execute/replay.h"
#include "sim/program/program.h"

namespace meshweave::testing {

struct RandomProgramOptions {
  int most_events = 30;
  bool one_communication_stream = false;  // and at most one send and one receive per batch: no link is ever shared
  bool host = true;                       // some ops hold the host, issuing costs time
};

// A program with all that a replay takes.
struct PlayableProgram {
  Program program;
  Communicators communicators;
  std::vector<Waits> waits;
  Costs costs;
  RankClasses classes;  // every rank its own
  std::vector<Perturbation> perturb;

  ReplayInput input() const { return {&program, &communicators, &waits, &costs, &classes, &perturb, 1}; }
};

std::unique_ptr<PlayableProgram> random_program(std::uint64_t seed, const RandomProgramOptions& options = {});

// 8 ranks per node on a switch of 400 GB/s ports and a NIC of 50 GB/s each, one leaf per rail, no
// oversubscription.
Cluster plain_cluster(int nodes);
Cluster mesh_cluster(int nodes);

}  // namespace meshweave::testing
