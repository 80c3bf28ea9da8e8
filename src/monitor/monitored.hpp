// What the live screen is drawn from: everything known now, and as much of the past as memory was
// set aside for.
//
// Filled by one thread and read by another, under the lock of whoever holds it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/report.hpp"
#include "lockstep/source.hpp"
#include "lockstep/timeline.hpp"
#include "timeline/history.hpp"

namespace lockstep {

// The newest reading of each field of one GPU, and when anything was last heard of it.
struct GpuNow {
  GpuInfo info;
  GpuSample latest;
  GpuState state = GpuState::unknown;
  bool lost = false;
  double heard_ms = 0;                        // when `busy` last had a value
  std::map<std::string, std::uint64_t> xids;  // how often each came, since the watch began
  // time for which a thermal or power-brake limit was seen, since the watch began
  double limited_ms = 0;
};

// Where a file is being played.
struct Playback {
  double begin_ms = 0;
  double position_ms = 0;
  std::optional<double> end_ms;  // nothing: not known yet
  double speed = 1;
  bool paused = false;
  bool loops = false;
  bool seeking = false;  // on the way to a place: what is shown is not yet it
  bool at_end = false;
};

// The file that is being written meanwhile.
struct OngoingRecording {
  std::string path;
  double since_ms = 0;  // its first record: the past that was still in memory is in it
  std::uint64_t records = 0;
};

struct Monitored {
  Machine machine;
  SourceKind kind = SourceKind::nvml;
  std::string detail;
  bool open = false;        // false: the driver has not answered yet
  bool local_pids = false;  // processes are of this machine, so that a signal would reach them

  History history{{}};
  std::vector<GpuNow> gpus;
  ProcessTick processes;                 // newest list
  std::deque<StepAt> steps;              // newest last
  std::deque<EventAt> events;            // newest last
  std::shared_ptr<const Report> report;  // of the last half minute; none yet at the start
  std::optional<Source::Silence> silence;
  bool driver_gone = false;          // unloaded or restarting: tried again until it answers
  std::optional<double> cost;        // share of wall time in the driver
  bool waits_for_wanted = false;     // one process was asked for, and holds no GPU yet
  std::optional<Playback> playback;  // nothing: live
  std::optional<OngoingRecording> recording;
  std::chrono::nanoseconds interval{};
  // one sentence about what just happened, such as a file that could not be written
  std::string note;
  std::uint64_t notes = 0;  // counts them: a new one is told from an old one

  bool live() const { return !playback; }
  // The time that is now on the records' clock.
  // Where the clock that people are shown starts.
  double origin_ms() const { return playback ? playback->begin_ms : history.first_ms(); }
  double now_ms() const { return playback ? playback->position_ms : history.newest_ms(); }
};

}  // namespace lockstep
