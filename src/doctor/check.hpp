// One question of the doctor's, its answer, what was seen, and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

enum class Answer : std::uint8_t {
  yes,
  no,
  unknown,  // it cannot be told here, or the question does not arise: the detail says why
};

struct Check {
  // "driver", "GPU", "signals", "links", "machine", "network", "environment", "processes",
  // "communication", "virtual GPUs"
  std::string group;
  std::string question;
  Answer answer = Answer::unknown;
  std::string detail;  // what was seen
  std::string next;    // what to do about a no
};

using Checks = std::vector<Check>;

}  // namespace lockstep
