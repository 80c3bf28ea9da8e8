// One training of a demo or a benchmark: started, watched for a while once it works, ended, and
// judged.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/before_after.hpp"
#include "lockstep/result.hpp"
#include "report/verification.hpp"

namespace lockstep {

struct TrainingWatchOptions {
  // the GPUs: "virtual:2", or nothing for real ones
  std::string input;
  std::chrono::nanoseconds duration = std::chrono::seconds(15);  // of training
  bool quiet = false;
};

struct WatchedTraining {
  MeasuredRun measured;
  RunSpeed speed;          // by the trainer's marks
  double other_cores = 0;  // CPU time that others took meanwhile, in cores
  bool failed = false;     // the training ended by itself, with an error
  bool interrupted = false;
};

// What this process starts from now on is nobody's rank and has virtual GPUs of its own.
void train_apart(const std::string& scope);

Result<WatchedTraining> run_and_watch(std::string title, const std::vector<std::string>& command,
                                      const TrainingWatchOptions& options);

}  // namespace lockstep
