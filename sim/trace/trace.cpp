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

}  // namespace meshweave
