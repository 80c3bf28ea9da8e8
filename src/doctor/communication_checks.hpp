// Whether ranks understand each other, and how fast: run, not guessed. lockstep-train does it,
// started by `lockstep launch`.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "doctor/check.hpp"

namespace lockstep {

struct CommunicationOptions {
  std::string launcher;  // lockstep itself
  std::string trainer;   // lockstep-train; empty: this build has none
  std::string why_no_trainer;
  int gpus = 0;  // real ones that a job would see
  // by whom GPUs are held or busy; empty: by nobody. Then none of them is touched
  std::string in_use;
  std::optional<double> link_bytes_s;  // that a collective can reach between them
  bool speed = true;                   // of NCCL and Gloo
  bool ddp = false;
  int ranks = 0;  // of --ddp; 0: one a GPU, two at least
  std::chrono::milliseconds limit = std::chrono::seconds(90);  // for each program
};

Checks communication_checks(const CommunicationOptions& options);

// What a self test's lines say: for tests, and for the above.
Checks checks_of_bandwidth(const std::string& lines, const std::string& backend,
                           std::optional<double> link_bytes_s);
Checks checks_of_ddp(const std::string& lines);

}  // namespace lockstep
