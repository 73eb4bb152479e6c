// Runs a replay in a child process, for networks whose engine a process can make only once. The child is
// forked from this process as it stands; its result comes back through a pipe.
#pragma once

#include <functional>

#include "sim/execute/replay.h"

namespace meshweave {

// Throws Interrupted when `interrupt` becomes non-zero here or in the child, IoError when no child can be
// made or it ends without a result, and std::runtime_error with the message of what else the child threw.
ReplayResult replay_in_child(const std::function<ReplayResult()>& work, const InterruptFlag* interrupt);

}  // namespace meshweave
