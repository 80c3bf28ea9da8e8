// Error messages of training programs that lockstep knows: which finding they are, their cause and
// what to do.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "lockstep/finding.hpp"

namespace lockstep {

enum class MessageWeight : std::uint8_t {
  ends_the_run,
  usual_reason,  // of such an end, and not the only one: never sure
  costs,         // the run goes on, slower than it could
  told,          // the run goes on as it did
};

struct KnownMessage {
  FindingCode code;
  std::string_view words;  // all of these, in this order, parted by " ... "
  std::string_view cause;
  std::string_view fix;
  MessageWeight weight = MessageWeight::ends_the_run;
  bool by_words = true;  // false: the lines around it tell, or what else its line holds
};

// Whether it is said of others than the run itself follows from the sizes in the line.
inline constexpr std::string_view kOthersHoldMemory =
    "CUDA out of memory ... Process ... memory in use";

// PyTorch's older message names nobody, and its sizes do not tell others from this process's other
// libraries.
inline constexpr std::string_view kOutOfMemory = "CUDA out of memory";

// By its sizes much of the GPU is neither free nor PyTorch's.
inline constexpr std::string_view kHeldElsewhere = "CUDA out of memory ... total capacity ... free";

// By its sizes the GPU had more than enough left.
inline constexpr std::string_view kRoomWasLeft = "Tried to allocate ... free";

// The line holds what both ranks were at: one collective with different sizes, or different ones.
inline constexpr std::string_view kMismatchOfSizes =
    "Detected mismatch between collectives on ranks ... TensorShape";

// Said by whoever compares what several ranks print.
inline constexpr std::string_view kWatchdogsDiffer = "the ranks' watchdogs name different calls";

// The assertion itself is printed by the kernel, above.
inline constexpr std::string_view kDeviceAssertion = "CUDA error: device-side assert triggered";

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=…": the number decides what it means.
inline constexpr std::string_view kXid = "NVRM: Xid";

// The shell's one word for a program that got SIGKILL.
inline constexpr std::string_view kKilledAlone = "Killed";

// torchrun's summary: "exitcode  : 1 (pid: 78971)", "failed (exitcode: 1) local_rank: 0". Where
// nothing else tells why.
inline constexpr std::string_view kRankEnded = "exitcode ... local_rank";

// The next lines name the ranks: "[1] finished collective #2, but didn't join collective #3".
inline constexpr std::string_view kDesync = "ranks that caused the desync are";

// Added by the reader, who has the whole line: what is shown of it is shorter.
inline constexpr std::string_view kOtherSizes = "the same operation on both, with other sizes";

// Added by the reader, who has the traceback above the line.
inline constexpr std::string_view kNoBatchYet =
    "the model itself was on its way to the GPU, before any batch";

inline constexpr std::string_view kSlurmCancelled = "*** ... CANCELLED AT";

inline constexpr std::string_view kRunWentOn = "the run went on";

inline constexpr std::string_view kStalledOfHorovod =
    "were submitted to be reduced, gathered or broadcasted by subset of ranks";

// An address needs no name server.
inline constexpr std::string_view kNobodyAnswers = "client socket ... address of";

// An exception that no other message knows: where it ends the run is seen from the lines around it.
inline constexpr std::string_view kOwnError = "Traceback (most recent call last)";

// Which devices: a tensor that was left on the CPU is another mistake.
inline constexpr std::string_view kTwoDevices =
    "Expected all tensors to be on the same device, but found at least two devices, cuda";

std::span<const KnownMessage> known_messages();
const KnownMessage& known_message(std::string_view words);

// What else stands in a log speaks for a usual reason: a launcher for ranks that are too many,
// Transformers' and Accelerate's own code for a device_map.
bool speaks_for(const KnownMessage& message, std::string_view another_line);

// That a rank or a child ended with an error of its own, said by whoever started it: a wrapper's
// exception, torchrun's "exitcode  : 1 (pid: 78971)".
bool speaks_of_a_child(std::string_view line);

// The message that a line holds. Not `sure`: the same words are said of other things, too, and
// nothing in the line tells which.
struct MatchedMessage {
  const KnownMessage* message = nullptr;
  bool sure = true;
};
std::optional<MatchedMessage> match_message(std::string_view line);

}  // namespace lockstep
