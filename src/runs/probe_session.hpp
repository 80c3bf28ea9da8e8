// A command with probes: the folder in which its processes write, the variables that switch the
// probes on, and the end of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "capture/resting_daemon.hpp"
#include "launch/ranks/probe_environment.hpp"
#include "lockstep/result.hpp"
#include "runs/last_will.hpp"

namespace lockstep {

class ProbeSession {
 public:
  // Makes the folder, which is removed with the session. Without probes there is none, and the
  // environment is our own.
  static Result<ProbeSession> start(const ProbeChoice& probes);
  ProbeSession(ProbeSession&& other) noexcept;
  ProbeSession& operator=(ProbeSession&&) = delete;
  ~ProbeSession();

  bool on() const { return !folder_.empty(); }
  // those that are switched on
  const ProbeChoice& probes() const { return probes_; }
  const std::vector<std::string>& left_out() const { return left_out_; }  // why others are not
  const std::filesystem::path& folder() const { return folder_; }
  const std::optional<std::vector<std::string>>& environment() const { return environment_; }
  // Tells the probes to stop: within a second or so their hooks are gone, and the command goes on.
  void stop_measuring() const;

 private:
  ProbeSession() = default;

  std::filesystem::path folder_;
  ProbeChoice probes_;
  std::vector<std::string> left_out_;
  std::optional<std::vector<std::string>> environment_;
  LastWill will_;
  RestingDaemon resting_;  // so that `lockstep trace` can ask its processes
};

}  // namespace lockstep
