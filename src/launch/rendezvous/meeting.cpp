#include "launch/rendezvous/meeting.hpp"

#include <fmt/format.h>

#include <random>

#include "base/text.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "launch/rendezvous/static_meeting.hpp"
#include "launch/rendezvous/torch_meeting.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

std::string random_id() {
  std::random_device source;
  std::string id;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) id += '-';
    const unsigned digit = i == 12 ? 4U : i == 16 ? 8U + source() % 4U : source() % 16U;
    id += "0123456789abcdef"[digit];
  }
  return id;
}

// One machine: nobody to wait for.
class AloneMeeting : public Meeting {
 public:
  AloneMeeting(const LaunchSettings& settings, int local_ranks, const Endpoint& endpoint)
      : policy_(settings.max_restarts), max_restarts_(settings.max_restarts) {
    place_.local_ranks = place_.world = local_ranks;
    place_.run_id = settings.standalone ? random_id() : settings.run_id;
    const bool own_port = settings.standalone || settings.backend == Backend::c10d;
    place_.master_address =
        own_port ? (settings.local_address.empty() ? "localhost" : settings.local_address)
                 : endpoint.host;
    given_port_ = own_port ? 0 : endpoint.port;
    if (settings.adopted) {
      place_.first_rank = settings.adopted->rank;
      place_.world = settings.adopted->world;
      place_.node = settings.adopted->node;
      place_.nodes = settings.adopted->nodes;
      place_.adopted_local_rank = settings.adopted->local_rank;
      place_.adopted_local_world = settings.adopted->local_world;
    }
  }

  Result<std::optional<GroupPlace>> join(SignalEvents&) override {
    place_.attempt = policy_.restarts();
    place_.master_port = given_port_;
    // A fresh port for each attempt: a store that a failed attempt left behind is never met again.
    if (place_.attempt > 0 || given_port_ == 0) {
      const auto port = free_port();
      if (!port) return Error{"no free port is to be had on this machine", "see `ss -ltn`"};
      place_.master_port = *port;
    }
    return std::optional(place_);
  }

  Decision conclude(const Outcome& outcome, SignalEvents&) override {
    return outcome.failed ? decide(policy_, outcome, max_restarts_) : Decision{};
  }

 private:
  GroupPlace place_;
  int given_port_ = 0;
  RestartPolicy policy_;
  const int max_restarts_;
};

}  // namespace

Decision decide(RestartPolicy& policy, const Outcome& root_cause, int max_restarts) {
  Decision decision;
  decision.code = root_cause.code;
  switch (policy.after_failure(root_cause.signature, root_cause.ran)) {
    case RestartPolicy::Answer::same_again:
      decision.words = fmt::format(
          "not started again, though {} of {} restarts are left: the same error came twice at {}\n "
          " next: mend it there",
          policy.left(), max_restarts, printable(root_cause.place));
      return decision;
    case RestartPolicy::Answer::none_left:
      if (max_restarts > 0)
        decision.words = fmt::format("all {} restarts are used up", max_restarts);
      return decision;
    case RestartPolicy::Answer::restart: break;
  }
  decision.restart = true;
  decision.pause = policy.pause();
  decision.words =
      fmt::format("starting again: restart {} of {}{}", policy.restarts(), max_restarts,
                  decision.pause > 0s ? " in " + format_duration(decision.pause) : std::string());
  return decision;
}

Result<Endpoint> endpoint_of(const LaunchSettings& settings) {
  if (settings.standalone) return Endpoint{"localhost", 0};
  if (settings.endpoint.empty()) return Endpoint{settings.master_address, settings.master_port};
  const int usual_port = settings.backend == Backend::c10d ? 29400 : settings.master_port;
  const std::string& text = settings.endpoint;
  const auto colon = text.rfind(':');
  const bool bare_ipv6 = text.find(':') != colon && text.front() != '[';
  if (colon == std::string::npos || bare_ipv6 || text.back() == ']')
    return Endpoint{text, usual_port};
  const auto port = parse_integer(std::string_view(text).substr(colon + 1));
  if (!port || *port < 0 || *port > 65535)
    return usage_error(
        fmt::format("--rdzv-endpoint={} has no port from 0 to 65535", printable(text)),
        "for example --rdzv-endpoint=host0:29400");
  return Endpoint{text.substr(0, colon), static_cast<int>(*port)};
}

Result<std::unique_ptr<Meeting>> make_meeting(const LaunchSettings& settings, int local_ranks,
                                              const std::string& python) {
  auto endpoint = TRY(endpoint_of(settings));
  const bool alone = settings.standalone || settings.max_nodes == 1;
  if (alone && !settings.with_torchrun)
    return std::unique_ptr<Meeting>(
        std::make_unique<AloneMeeting>(settings, local_ranks, endpoint));
  if (settings.backend == Backend::c10d || settings.with_torchrun)
    return start_torch_meeting(settings, local_ranks, python, endpoint);
  return std::unique_ptr<Meeting>(std::make_unique<StaticMeeting>(settings, local_ranks, endpoint));
}

}  // namespace lockstep
