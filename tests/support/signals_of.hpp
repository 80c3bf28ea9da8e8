// Signals of made-up runs on H100s, for tests of detectors: a known case each, of which a test
// changes one thing.
#pragma once

#include "lockstep/signals.hpp"

namespace lockstep::testing {

// torchrun with DDP: one rank per GPU, half a minute of steps, nothing to complain about.
Signals healthy_ranks(int gpus);

// One plain python process whose model is split over the GPUs: one works while the others wait,
// half a second a round.
Signals split_model(int gpus);

// One plain python process with nn.DataParallel: all work, and the first holds twice the memory.
Signals data_parallel(int gpus);

// One rank a stage, with micro-batches: the stages overlap, and one is alone while the pipeline
// fills and drains.
Signals pipeline_of(int stages);

// Plain `python train.py` on the first GPU; the others hold nothing.
Signals alone(int gpus_of_machine);

// The same command line once on each GPU, started by hand.
Signals copies_by_hand(int gpus);

// One tensor-parallel inference server on all GPUs: requests come and go, and it takes all memory
// on purpose.
Signals server(int gpus);

// Processes hold GPUs, and nothing runs on them.
Signals nothing_runs(int gpus);

}  // namespace lockstep::testing
