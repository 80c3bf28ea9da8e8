// What the watchdogs of NCCL's ranks say when a collective times out, compared: who waits in what,
// and whose word is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// One rank's call that timed out, its earliest.
struct TimedOutCall {
  int rank = 0;
  std::string group;  // empty: the line before PyTorch 2.4 does not say
  std::int64_t sequence = 0;
  std::string operation;
  std::string size;  // elements in; empty: not said

  bool operator==(const TimedOutCall&) const = default;
};

struct WatchdogWords {
  std::vector<TimedOutCall> calls;  // by rank
  std::vector<int> named;           // ranks that any line names
};

// The rank in "[rank3]: ..." or "[Rank 3] ...", by which launchers and PyTorch mark their lines.
std::optional<int> rank_of_line(std::string_view line);

// `rank` is of lines that name none: the file's own.
WatchdogWords watchdog_words(std::span<const std::string> lines, std::optional<int> rank = {});

struct ComparedWaits {
  std::vector<std::string> sentences;
  std::string different_calls;  // ranks of one group that came to different calls; empty: none did
  std::vector<int> silent;      // named, and none of those that wait
};
ComparedWaits compare_waits(const WatchdogWords& words);

}  // namespace lockstep
