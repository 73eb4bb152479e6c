// Messages match by their order per pair of ranks, as NCCL matches them: what one rank sends to another is
// received there in the same order. With two pipeline ranks each is the other's next and previous one, so the
// messages of all virtual stages and of both directions form one sequence per direction.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sim/schedule/schedule.h"

using namespace meshweave;

namespace {

// The messages from stage `from` to stage `to` in the order of `end`'s schedule, which is one of the two:
// "f3@1" is the output for micro-batch 3 over the boundary behind virtual stage 1, "b3@1" the gradient that
// returns over it.
std::string messages(ScheduleKind kind, const PipelineShape& shape, int from, int to, int end) {
  std::string out;
  for (const Action& action : make_schedule(kind, shape, end)) {
    for (const PipelineTransfer& t : action.transfers) {
      if (t.send != (end == from)) continue;
      const int virtual_stage = t.chunk * shape.ranks() + end;
      const bool behind = t.send != t.backward;  // the boundary lies behind the virtual stage
      const int other = (virtual_stage + (behind ? 1 : -1)) % shape.ranks();
      if (other != (end == from ? to : from)) continue;
      out += (t.backward ? " b" : " f") + std::to_string(t.micro_batch) + "@" +
             std::to_string(behind ? virtual_stage : virtual_stage - 1);
    }
  }
  return out;
}

PipelineShape shape_of(int stages, int chunks, int micro_batches) {
  PipelineShape shape;
  shape.placement = Placement::interleaved(stages, chunks);
  shape.micro_batches = micro_batches;
  return shape;
}

}  // namespace

TEST_CASE("two ranks of two chunks: the messages in order") {
  // Rank 0 has virtual stages 0 and 2, rank 1 has 1 and 3. Rank 0: F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0;
  // rank 1: F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0. Forward messages leave virtual stages 0 and 2 for rank
  // 1, and 1 for rank 0; the gradients return over the same boundaries.
  const PipelineShape shape = shape_of(2, 2, 2);
  const std::string to_1 = " f0@0 f1@0 f0@2 f1@2 b0@1 b1@1";
  const std::string to_0 = " f0@1 f1@1 b0@2 b1@2 b0@0 b1@0";
  CHECK(messages(ScheduleKind::one_f_one_b, shape, 0, 1, 0) == to_1);
  CHECK(messages(ScheduleKind::one_f_one_b, shape, 0, 1, 1) == to_1);
  CHECK(messages(ScheduleKind::one_f_one_b, shape, 1, 0, 1) == to_0);
  CHECK(messages(ScheduleKind::one_f_one_b, shape, 1, 0, 0) == to_0);
}

TEST_CASE("both ends of a pair have its messages in the same order, each once") {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (const int stages : {2, 3, 4, 8}) {
      for (const int chunks : {1, 2, 3, 4}) {
        for (const int groups : {1, 2, 3}) {
          for (const bool forward_only : {false, true}) {
            for (const bool deferred : {false, true}) {
              if (kind == ScheduleKind::gpipe && chunks > 1) continue;
              PipelineShape shape = shape_of(stages, chunks, groups * stages);
              shape.forward_only = forward_only;
              shape.defer_weight_gradients = deferred;
              std::size_t sent = 0;
              for (int from = 0; from < stages; ++from) {
                for (int to = 0; to < stages; ++to) {
                  if (from == to) continue;
                  const std::string at_source = messages(kind, shape, from, to, from);
                  CHECK(at_source == messages(kind, shape, from, to, to));
                  sent += static_cast<std::size_t>(std::count(at_source.begin(), at_source.end(), '@'));
                }
              }
              // Every micro-batch crosses every boundary between virtual stages, once each way.
              const int boundaries = stages * chunks - 1;
              CHECK(sent == static_cast<std::size_t>((forward_only ? 1 : 2) * boundaries * shape.micro_batches));
            }
          }
        }
      }
    }
  }
}
