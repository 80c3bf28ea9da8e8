// What patches bring, measured: the same command on the project as it is and as it would be, by
// turns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// What a run's speed was taken from, the best that all runs have.
enum class SpeedBasis : std::uint8_t {
  samples,    // steps of all ranks, with the batch that their loaders make
  batches,    // steps of all ranks; the batch is not known
  gpu_work,   // busy time of all GPUs
  whole_run,  // from start to end
};

struct VerifiedVariant {
  std::string title;                 // "as it is", "D202 train.py:12: let 4 workers ..."
  std::vector<std::string> command;  // as it was run
  std::vector<double> speeds;        // one a round, in units of the basis
  std::vector<double> seconds;       // how long the runs took
};

// after / before with its 95 % interval, from runs of the same round.
struct Speedup {
  double ratio = 1;
  double low = 0;
  double high = 0;
  bool helped() const { return low > 1; }
  bool harmed() const { return high < 1; }
};

struct Verification {
  SpeedBasis basis = SpeedBasis::whole_run;
  // the runs were ended after a while: how long they would take is not known
  bool cut_short = false;
  std::vector<VerifiedVariant> variants;  // the first is the project as it is
  std::vector<Speedup> speedups;          // of each against the first; the first is 1
};

}  // namespace lockstep
