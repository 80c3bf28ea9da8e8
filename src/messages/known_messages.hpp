// Error messages of training programs that lockstep knows: which finding they are, their cause and
// what to do.
#pragma once

#include <span>
#include <string_view>

#include "lockstep/finding.hpp"

namespace lockstep {

struct KnownMessage {
  FindingCode code;
  std::string_view words;  // all of these, in this order, parted by " ... "
  std::string_view cause;
  std::string_view fix;
};

std::span<const KnownMessage> known_messages();

// The message that a line holds; nothing: none that is known.
const KnownMessage* match_message(std::string_view line);

}  // namespace lockstep
