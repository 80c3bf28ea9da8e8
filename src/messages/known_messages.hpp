// Error messages of training programs that lockstep knows: which finding they are, their cause and
// what to do.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "lockstep/finding.hpp"

namespace lockstep {

struct KnownMessage {
  FindingCode code;
  std::string_view words;  // all of these, in this order, parted by " ... "
  std::string_view cause;
  std::string_view fix;
  bool is_the_usual_reason = false;  // and not the only one: never sure
};

// Whether it is said of others than the run itself follows from the sizes in the line.
inline constexpr std::string_view kOthersHoldMemory =
    "CUDA out of memory ... Process ... memory in use";

std::span<const KnownMessage> known_messages();

// The message that a line holds. Not `sure`: the same words are said of other things, too, and
// nothing in the line tells which.
struct MatchedMessage {
  const KnownMessage* message = nullptr;
  bool sure = true;
};
std::optional<MatchedMessage> match_message(std::string_view line);

}  // namespace lockstep
