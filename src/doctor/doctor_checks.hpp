// The doctor's questions, each with a time limit, and what to do about each no.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sources/open_source.hpp"

namespace lockstep {

enum class Answer : std::uint8_t {
  yes,
  no,
  note,  // neither good nor bad: a fact worth knowing
};

struct Check {
  std::string group;   // "GPU", "signals", "processes", "virtual GPUs", "machine"
  std::string question;
  Answer answer = Answer::note;
  std::string detail;  // what was seen
  std::string next;    // what to do about a no
};

struct DoctorOptions {
  std::string input;  // empty: this machine's GPUs
  std::chrono::milliseconds limit = std::chrono::seconds(5);  // for each check
};

std::vector<Check> run_checks(const DoctorOptions& options);

}  // namespace lockstep
