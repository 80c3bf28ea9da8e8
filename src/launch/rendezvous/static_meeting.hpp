// Machines with numbers (--nnodes, --node-rank) that all run lockstep. Machine 0 listens on the
// port after the master's; the others connect, say how many ranks they have, and learn theirs. The
// connection stays: a failure anywhere stops all at once, machine 0 decides about a restart and
// chooses the next attempt's port, and a machine that vanishes is noticed. One JSON object a line,
// docs/launch.md has the messages.
#pragma once

#include <map>
#include <vector>

#include "launch/rendezvous/line_socket.hpp"
#include "launch/rendezvous/meeting.hpp"

namespace lockstep {

class StaticMeeting : public Meeting {
 public:
  StaticMeeting(const LaunchSettings& settings, int local_ranks, const Endpoint& endpoint);
  ~StaticMeeting() override;
  StaticMeeting(const StaticMeeting&) = delete;
  StaticMeeting& operator=(const StaticMeeting&) = delete;

  Result<std::optional<GroupPlace>> join(SignalEvents& signals) override;
  int descriptor() const override;
  bool others_failed() override;
  void tell_failing() override;
  Decision conclude(const Outcome& outcome, SignalEvents& signals) override;

 private:
  struct Node {
    LineSocket socket;
    std::string host;
    int ranks = 0;
    std::optional<Outcome> outcome;
    bool lost = false;
  };

  // machine 0: until all are there; false: interrupted
  Result<bool> gather(SignalEvents& signals);
  Result<std::optional<GroupPlace>> ask(SignalEvents& signals);  // the others
  void hear_callers();
  void welcome(LineSocket caller);
  void read_nodes();
  void tell_all(const std::string& line);
  Decision decide_for_all(const Outcome& own, SignalEvents& signals);
  Decision await_decision(const Outcome& own, SignalEvents& signals);
  bool is_first() const { return settings_.node_rank == 0; }

  const LaunchSettings& settings_;
  const int local_ranks_;
  const Endpoint master_;
  const int control_port_;
  const std::chrono::nanoseconds join_timeout_;
  RestartPolicy policy_;
  GroupPlace place_;
  ListeningSocket listening_;
  std::map<int, Node> nodes_;        // of machine 0: all but itself
  std::vector<LineSocket> callers_;  // connected, not yet introduced
  LineSocket first_;                 // of the others: to machine 0
  bool gathering_ = false;
  std::vector<int> failing_;  // machine 0: nodes in the order in which they failed
  bool told_to_stop_ = false;
  int poll_ = -1;  // readable when any of the sockets is
};

}  // namespace lockstep
