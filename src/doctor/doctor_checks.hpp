// The doctor's questions, each with a time limit, and what to do about each no.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "doctor/check.hpp"
#include "doctor/communication_checks.hpp"
#include "doctor/machine_checks.hpp"
#include "sources/open_input.hpp"

namespace lockstep {

struct DoctorOptions {
  std::string input;  // empty: this machine's GPUs
  int port = kUsualPort;
  bool port_given = false;                                    // by the user, who wants it free
  std::vector<std::string> nodes;                             // machines to be reached
  std::optional<CommunicationOptions> communication;          // nothing: no program is run
  std::chrono::milliseconds limit = std::chrono::seconds(5);  // for each check
};

Checks run_checks(const DoctorOptions& options);

}  // namespace lockstep
