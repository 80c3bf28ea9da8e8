// What can be known to go wrong before a rank is started, each with its finding, the value seen and
// a way out. All of it together takes a millisecond or two; what needs the driver runs beside the
// ranks (launcher.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "launch/ranks/rank_environment.hpp"
#include "launch/rendezvous/meeting.hpp"
#include "lockstep/finding.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct CheckNote {
  FindingCode code = FindingCode::port_in_use;
  std::string what;
  std::string next;
  bool refuses = false;  // the job cannot run so; else it is a word of warning
};

std::string in_words(const CheckNote& note);

// Where the job is to run, for checks that tests make up.
struct CheckedMachine {
  std::optional<int> gpus;          // nothing: no driver
  std::uint64_t shared_memory = 0;  // size of /dev/shm; 0: there is none
  std::uint64_t shared_memory_free = 0;
};
CheckedMachine this_machine(const Variables& around);

std::vector<CheckNote> check_launch(const LaunchSettings& settings, int local_ranks,
                                    const Variables& around, const CheckedMachine& machine);

// The parts of it that look at one thing.
std::optional<CheckNote> check_gpu_count(int local_ranks, const Variables& around,
                                         const CheckedMachine& machine);
std::optional<CheckNote> check_shared_memory(int local_ranks, const CheckedMachine& machine);
std::optional<CheckNote> check_leftovers(const LaunchSettings& settings, const Variables& around);
std::optional<CheckNote> check_nested(const std::string& script, const std::string& text,
                                      int local_ranks);
std::optional<CheckNote> check_accumulation(const LaunchSettings& settings, const std::string& text,
                                            int world);
// What must be so for the machines to meet: the port is free on machine 0, the name means
// something.
std::optional<CheckNote> check_endpoint(const LaunchSettings& settings, const Endpoint& endpoint);

}  // namespace lockstep
