#include "sim/trace/trace.h"

#include "sim/base/error.h"

namespace meshweave {

std::string_view name_of(Release release) {
  switch (release) {
    case Release::none: return "none";
    case Release::stream: return "stream";
    case Release::wait: return "wait";
    case Release::host: return "host";
  }
  bug("unknown release");
}

std::string slice_name(const TraceOp& op) {
  // Ops that exist only in the backward pass say so in their label: "hidden gradient", "send backward".
  const bool said = op.label.find("gradient") != std::string::npos || op.label.find("backward") != std::string::npos;
  if (op.phase == "recompute") return op.label + " recompute";
  if (op.phase == "backward-data" && !said) return op.label + " dgrad";
  if (op.phase == "backward-weight" && !said) return op.label + " wgrad";
  return op.label;
}

}  // namespace meshweave
