// How the machines of a job find each other, attempt by attempt, and agree on what to do when one
// of them fails.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "launch/arguments/launch_settings.hpp"
#include "launch/guard/signal_events.hpp"
#include "launch/ranks/rank_environment.hpp"
#include "launch/ranks/restart_policy.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// How an attempt ended on this machine.
struct Outcome {
  bool failed = false;
  int code = 0;
  int rank = -1;          // the first to fail
  std::string signature;  // empty: the place is not known
  std::string place;
  std::chrono::nanoseconds ran{};
};

struct Decision {
  bool restart = false;
  int code = 0;  // where it ends
  std::chrono::nanoseconds pause{};
  std::string words;  // for the user; may be empty
};

class Meeting {
 public:
  virtual ~Meeting() = default;
  // Waits until all are there. Nothing: the user asked for the end meanwhile.
  virtual Result<std::optional<GroupPlace>> join(SignalEvents& signals) = 0;
  // While ranks run: readable when another machine has news; -1: there is none.
  virtual int descriptor() const { return -1; }
  // Whether this machine's ranks must stop because of another machine.
  virtual bool others_failed() { return false; }
  // A rank of this machine failed: the others need not wait for the rest of the story.
  virtual void tell_failing() {}
  virtual Decision conclude(const Outcome& outcome, SignalEvents& signals) = 0;
};

// The decision after a failure, in the same words everywhere.
Decision decide(RestartPolicy& policy, const Outcome& root_cause, int max_restarts);

// One machine, static machines that all run lockstep, or torch's own rendezvous.
Result<std::unique_ptr<Meeting>> make_meeting(const LaunchSettings& settings, int local_ranks,
                                              const std::string& python);

// HOST:PORT as people write it, with brackets around an IPv6 address.
struct Endpoint {
  std::string host;
  int port = 0;
};
Result<Endpoint> endpoint_of(const LaunchSettings& settings);

}  // namespace lockstep
