#include "sim/report/run_view.h"

#include "sim/base/error.h"

namespace meshweave {

LaneKind lane_kind(StreamKind kind) {
  switch (kind) {
    case StreamKind::compute: return LaneKind::compute;
    case StreamKind::copy_in:
    case StreamKind::copy_out: return LaneKind::copy;
    case StreamKind::tensor:
    case StreamKind::pipeline:
    case StreamKind::data:
    case StreamKind::boundary: return LaneKind::communication;
  }
  bug("unknown stream kind");
}

Release release_of(CauseKind kind) {
  switch (kind) {
    case CauseKind::none: return Release::none;
    case CauseKind::stream: return Release::stream;
    case CauseKind::wait: return Release::wait;
    case CauseKind::host: return Release::host;
  }
  bug("unknown cause");
}

ClassLane::ClassLane(const RunView& run, std::size_t c)
    : body_(run.body_of_class(c)), slices_(run.replay.timelines[c].slices) {
  ensure(slices_.size() == body_.ops.size(), "a timeline that does not fit its body");
  for (const OpSpec& spec : run.program.op_specs) streams_.push_back(spec.stream);
  for (const Stream& stream : run.program.streams) kinds_.push_back(lane_kind(stream.kind));
}

}  // namespace meshweave
