// What must hold between the parts of a scenario before anything runs: grids that tile their ranks, shards without
// remainders, layers over stages, micro-batches over the batch.
#pragma once

#include "sim/scenario/input_file.h"
#include "sim/scenario/scenario_fields.h"

namespace meshweave {

// Fills what follows from other fields and reports what does not fit. The form must have been read without mistakes.
void resolve(ScenarioForm& form, const InputFile& file, Diagnostics& diagnostics);

}  // namespace meshweave
