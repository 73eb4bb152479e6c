// The verifier: what must hold of every program before an executor runs it. A violation is a bug in the
// lowering, never a user's mistake.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/program/program.h"
#include "sim/program/waits.h"

namespace meshweave {

enum class Fault : std::uint8_t {
  unwritten_read,       // an operand that nothing wrote before
  stale_read,           // the storage's last write was another tensor
  reused_storage,       // a transient storage that holds more than one tensor
  dead_write,           // a transient tensor that nothing reads (outputs of a re-emitted block excepted)
  unread_secondary,     // a log-sum-exp, statistic or mask that nothing reads
  operand_mismatch,     // operands that do not fit the kind: shapes, dtypes, partial sums
  unmatched_message,    // a send without its receive, or the reverse
  message_size,         // both ends of different bytes
  message_order,        // the order of a pair differs at its ends
  collective_mismatch,  // members of a group that call different collectives
  deadlock,             // the program does not run to its end with zero durations
  serial_deadlock,      // … when each rank runs its communications one at a time in issue order
};
std::string_view name_of(Fault);

struct Violation {
  Fault fault = Fault::unwritten_read;
  int rank = 0;
  int op = -1;          // index into the rank's body
  int other_rank = -1;  // the other side, where there is one
  int other_op = -1;
  std::string text;  // a whole sentence naming rank, op and the other side; a deadlock prints its cycle
};

// At most `limit` violations. Fused over ranks of one body where the fault does not depend on the rank. Without
// violations `derived`, if given, holds what derive_waits() says of each body: the verifier needs it too. Throws
// Interrupted when `interrupt` becomes non-zero.
std::vector<Violation> verify(const Program& program, std::size_t limit = 20, std::vector<Waits>* derived = nullptr,
                              const InterruptFlag* interrupt = nullptr);

}  // namespace meshweave
