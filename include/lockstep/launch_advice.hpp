// A setting with which a job should be started, and why.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep {

struct LaunchAdvice {
  enum class Kind : std::uint8_t { set_variable, unset_variable, flag };
  Kind kind = Kind::flag;
  std::string name;   // OMP_NUM_THREADS, --bind
  std::string value;  // empty for a switch
  std::string reason;
};

// What is known of a job before it starts.
struct LaunchSituation {
  int gpus = 0;
  int ranks = 1;
  bool one_machine = true;
  bool meeting_given = false;  // an address, a port or a backend
  int memory_nodes = 1;
  std::map<std::string, std::string> environment;
};

}  // namespace lockstep
