// What the live screen asks of whoever feeds it and of the program around it.
#pragma once

#include <string>
#include <variant>

namespace lockstep {

// Of the feed. All but one are relative to what is then: keys may come faster than they are
// answered.
struct TogglePause {};
struct SeekTo {
  double t_ms = 0;
};
struct SeekBy {
  double ms = 0;
};
struct ChangeSpeed {
  int steps = 0;
};  // faster, or slower below 0
struct ToggleLoop {};
struct ToggleRecording {
  std::string path;
};  // starts one at that path, or ends the one that runs
struct ChangeInterval {
  int steps = 0;
};  // longer, or shorter below 0
struct JudgeNow {};
using FeedRequest = std::variant<TogglePause, SeekTo, SeekBy, ChangeSpeed, ToggleLoop,
                                 ToggleRecording, ChangeInterval, JudgeNow>;

// Of the program.
struct QuitScreen {};
struct SendSignal {
  int pid = 0;
  int signal = 0;
  std::string name;  // "SIGTERM"
};
struct CopyText {
  std::string text;
};
struct SaveSetup {};
struct RedrawAll {};
using ProgramRequest = std::variant<QuitScreen, SendSignal, CopyText, SaveSetup, RedrawAll>;

using MonitorRequest = std::variant<FeedRequest, ProgramRequest>;

}  // namespace lockstep
