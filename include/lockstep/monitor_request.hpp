// What the live screen asks of whoever feeds it and of the program around it.
#pragma once

#include <chrono>
#include <string>
#include <variant>

namespace lockstep {

// Of the feed.
struct PausePlayback { bool paused = false; };
struct SeekTo { double t_ms = 0; };
struct PlayAt { double speed = 1; };
struct LoopPlayback { bool loops = false; };
struct ToggleRecording { std::string path; };  // starts one at that path, or ends the one that runs
struct SetInterval { std::chrono::nanoseconds interval{}; };
struct JudgeNow {};
using FeedRequest = std::variant<PausePlayback, SeekTo, PlayAt, LoopPlayback, ToggleRecording, SetInterval, JudgeNow>;

// Of the program.
struct QuitScreen {};
struct SendSignal {
  int pid = 0;
  int signal = 0;
  std::string name;  // "SIGTERM"
};
struct CopyText { std::string text; };
struct SaveSetup {};
struct RedrawAll {};
using ProgramRequest = std::variant<QuitScreen, SendSignal, CopyText, SaveSetup, RedrawAll>;

using MonitorRequest = std::variant<FeedRequest, ProgramRequest>;

}  // namespace lockstep
