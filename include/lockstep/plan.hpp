// A plan for training: the way that was chosen, what it needs and brings, and what else there would
// be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct PlannedPart {
  std::string name;
  double bytes = 0;
};

// One way to run the training, with its numbers.
struct PlannedWay {
  std::string strategy;  // "ddp", "fsdp" …
  std::string words;     // "FSDP within each node, DDP across"
  int gpus = 1;
  int nodes = 1;
  int group = 1;     // GPUs that hold one copy of the model
  int replicas = 1;  // that see different samples
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::int64_t global_batch = 1;
  std::int64_t tokens_per_update = 0;
  bool activation_checkpointing = false;

  bool fits = false;
  std::vector<PlannedPart> memory;  // of one GPU
  double memory_bytes = 0;          // all of it
  double peak_allocated_bytes = 0;  // what a framework reports
  double memory_limit_bytes = 0;

  double step_ms = 0;
  double compute_ms = 0;
  double optimizer_ms = 0;
  double communication_ms = 0;
  double exposed_ms = 0;           // communication that nothing hides
  double communication_share = 0;  // of the step, exposed
  bool host_bound = false;
  double samples_s = 0;
  double tokens_s = 0;
  double model_flops_share = 0;  // of the GPUs' peak (MFU)
};

struct PlannedScale {
  PlannedWay way;
  double speedup = 1;  // against Plan::base_tokens_s
  double efficiency = 1;
  std::optional<double> days;  // for --tokens
  std::optional<double> gpu_hours;
};

// What to do when memory is short after all, in the order to try.
struct LadderRung {
  PlannedWay way;
  std::string note;  // what changes besides
};

struct PlannedSetting {
  std::string name;
  std::string value;
  std::string reason;
};

// A number the plan rests on: what an error in it would do.
struct PlanAssumption {
  std::string name;
  double value = 0;
  std::string unit;
  double doubt = 0;        // share by which it may be wrong
  double step_effect = 0;  // on the step's time, as a share
  double memory_effect = 0;
};

// A number with the way to it.
struct ExplainedNumber {
  std::string name;
  double value = 0;
  std::string unit;
  std::string formula;
};

struct PlannedModel {
  std::string name;
  double parameters = 0;
  double trained_parameters = 0;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t sequence_length = 0;
  std::string method;  // "full", "lora", "qlora"
  std::string precision;
  std::vector<std::string> frozen;
};

struct PlannedHardware {
  std::string gpu;
  int gpus_a_node = 1;
  int nodes = 1;
  double memory_bytes = 0;  // of one GPU
  std::string links;        // "nvlink", "pcie"
  double link_bytes_s = 0;
  double network_bytes_s = 0;
  int cores_a_node = 1;
  std::vector<std::string> notes;  // what was taken for granted
};

struct Plan {
  PlannedHardware hardware;
  PlannedModel model;
  PlannedWay choice;
  std::string reason;                 // why this way, in a sentence
  double missing_bytes = 0;           // on each GPU, where it fits nowhere
  std::vector<std::string> ways_out;  // likewise, the cheapest first
  std::vector<PlannedScale> scaling;
  // of one GPU, with memory enough where it has not: what speedups are measured by
  double base_tokens_s = 0;
  std::vector<PlannedWay> alternatives;  // the best of every other strategy
  std::vector<LadderRung> ladder;
  std::vector<PlannedSetting> settings;
  std::vector<PlanAssumption> assumptions;  // the one that matters most first
  double step_doubt = 0;                    // of the step's time, as a share either way
  double memory_doubt = 0;
  bool calibrated = false;
  std::vector<ExplainedNumber> numbers;  // how they come about
  std::size_t candidates = 0;            // that were tried
};

}  // namespace lockstep
