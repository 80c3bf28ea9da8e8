// Tries all ways to run a training on a machine: strategies, micro-batches, checkpointing.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/memory_model.hpp"
#include "model/time_model.hpp"
#include "plan/plan_request.hpp"

namespace lockstep {

struct Candidate {
  TrainingSetting setting;
  MemoryParts memory;
  StepTime time;
  bool fits = false;
  double tokens_s = 0;
  double score = 0;  // tokens a second, less what is given for simplicity and spare memory
};

// All numbers of one setting; the footprint is that of its checkpointing.
Candidate evaluate(const PlanRequest& request, const Footprint& footprint,
                   const TrainingSetting& setting);
Candidate evaluate(const PlanRequest& request, const TrainingSetting& setting);

struct SearchResult {
  std::optional<Candidate> best;  // that fits
  // the best of every strategy, that which fits least where none fits
  std::vector<Candidate> of_each;
  std::size_t tried = 0;
};

// On so many of the machine's GPUs.
SearchResult search(const PlanRequest& request, int gpus);

// Samples an update that were asked for, if any.
std::optional<std::int64_t> asked_batch(const PlanRequest& request);

}  // namespace lockstep
