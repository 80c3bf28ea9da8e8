// A command that is watched: its probes are switched on, it is started, the GPUs and its ranks are
// looked at while it works, and it is waited for or ended. Every command that measures goes this
// way: diagnose, profile, demo, bench, fix --verify.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/ranks/probe_environment.hpp"
#include "lockstep/source.hpp"
#include "lockstep/timeline.hpp"
#include "recording/writer.hpp"
#include "runs/child_command.hpp"
#include "runs/observation.hpp"
#include "runs/probe_session.hpp"
#include "runs/run_options.hpp"
#include "sources/probe/probe_source.hpp"

namespace lockstep {

class RecordedSource;

inline constexpr ProbeChoice kNoProbes{
    .python = false, .host = false, .cuda = false, .nccl = false, .ras = false};

struct WatchedCommandOptions {
  std::vector<std::string> command;  // empty: nothing is started, the source alone is watched
  ChildOutput output = ChildOutput::to_stderr;
  ProbeChoice probes = kNoProbes;
  ProbeReader::DeviceWork device_work = ProbeReader::DeviceWork::counted;
  std::map<std::string, std::string> variables;  // more for its environment
  std::string record_to;                         // a file for what was seen; empty: none
};

class WatchedCommand {
 public:
  // `gpus`: null where no GPU can be read, then the probes alone tell.
  static Result<WatchedCommand> start(const WatchedCommandOptions& options,
                                      std::unique_ptr<Source> gpus);
  WatchedCommand(WatchedCommand&&) noexcept;
  WatchedCommand& operator=(WatchedCommand&&) = delete;
  ~WatchedCommand();

  ChildCommand& child() { return child_; }
  const ProbeSession& session() const { return session_; }
  // until let_go()
  const Source& source() const { return *source_; }
  // Whether a probe of this role was heard.
  bool heard(lockstep_role role) const { return rings_ != nullptr && rings_->heard(role); }

  // Looks at the command and its GPUs (with no command: at what `how` says) until it has ended or
  // enough was seen. Then the probes stop, and the command goes on without them.
  Result<Timeline> observe(ObservationOptions how);
  // Closes the recording, if one was asked for.
  Status close_recording();
  // No more driver calls.
  void let_go();

 private:
  WatchedCommand(ProbeSession session, ChildCommand child);

  ProbeSession session_;
  std::unique_ptr<RecordingWriter> recording_;
  std::unique_ptr<Source> source_;
  // within source_, where they are part of it
  const ProbeSource* rings_ = nullptr;
  RecordedSource* recorded_ = nullptr;
  ChildCommand child_;
};

// Puts the report and waits for the command's end. The exit code: of an interrupt, of a command
// that failed, or of the findings.
Result<int> put_and_wait(const RunOptions& options, const Report& report, ChildCommand& child,
                         const std::string& words_while_waiting);

}  // namespace lockstep
