// What PyTorch's NCCL flight recorder wrote when a job hung: the last collectives of one rank, and
// which of them stand open.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/finding.hpp"

namespace lockstep {

struct FlightEntry {
  std::string group;          // of ranks, by its name
  std::int64_t sequence = 0;  // of the group's collectives, the same on all ranks
  std::string operation;      // "all_reduce"
  std::string shape;          // "[[1024]]": what differs where ranks disagree
  bool started = false;
  bool completed = false;
  // no longer waited for, whatever became of it: Gloo's never go beyond "scheduled"
  bool given_up = false;
  bool between_two = false;         // send or receive: no collective
  std::optional<SourceLine> where;  // the user's own line that called it
};

struct FlightDump {
  std::string file;
  int rank = 0;
  std::optional<int> told_rank;
  bool rank_is_a_guess = false;                     // nothing says it: the order of the files
  std::map<std::string, std::vector<int>> groups;   // its ranks, where the dump tells them
  std::map<std::string, std::string> descriptions;  // "default_pg"
  std::vector<FlightEntry> entries;                 // oldest first
};

// A collective that some ranks wait in.
struct StuckCollective {
  std::string group;
  std::string description;  // of the group: "default_pg"
  std::int64_t sequence = 0;
  std::string operation;
  std::vector<int> waiting;          // in it
  std::vector<int> missing;          // that have not called it
  std::vector<int> without_dump;     // of the group, that wrote nothing
  std::map<int, std::string> calls;  // where ranks disagree: what each calls as this number
  std::map<int, SourceLine> where;   // each rank's line: in it, or its last before
  std::map<int, std::int64_t> last;  // the number that each missing rank called last
};

}  // namespace lockstep
