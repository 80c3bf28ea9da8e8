// Small recordings for tests.
#pragma once

#include <string>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "recording/reader.hpp"

namespace lockstep::testing {

// Two GPUs with everything known.
Machine two_gpu_machine();

// One record of every kind, every field of every kind set.
std::vector<Record> one_of_each();

// The file's text.
std::string recording_text(const Machine& machine, const std::vector<Record>& records);

// What is left in a reader.
std::vector<Record> all_records(RecordingReader& reader);

// A GPU at a fixed load for a whole tick; memory and power follow from it.
GpuSample steady_sample(int index, double busy);

// `seconds` of ticks every 100 ms with the given loads, which never change.
std::vector<Record> plateau(const std::vector<double>& busy, double seconds);

}  // namespace lockstep::testing
