#include "sim/report/diagnostics_json.h"

#include "sim/base/json_text.h"

namespace meshweave {

std::string diagnostics_json(const std::vector<Diagnostic>& diagnostics) {
  JsonText out;
  out.array();
  for (const Diagnostic& d : diagnostics) {
    out.object();
    out.field("file", d.file);
    out.field("line", d.line);
    out.field("column", d.column);
    out.field("pointer", d.pointer);
    out.field("message", d.message);
    out.field("hint", d.hint);
    out.end();
  }
  out.end();
  return out.take();
}

}  // namespace meshweave
