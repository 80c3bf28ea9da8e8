#include "launch/rendezvous/torch_meeting.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "launch/rendezvous/line_socket.hpp"
#include "launch/rendezvous/torch_meeting_script.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

json conf_of(const LaunchSettings& settings) {
  json conf = json::object();
  for (const auto& [name, value] : settings.rendezvous_conf) {
    if (const auto number = parse_integer(value))
      conf[name] = *number;  // as torchrun reads them
    else
      conf[name] = value;
  }
  if (!conf.contains("timeout")) conf["timeout"] = 900;
  if (settings.backend == Backend::static_nodes) conf["rank"] = settings.node_rank;
  return conf;
}

class TorchMeeting : public Meeting {
 public:
  TorchMeeting(const LaunchSettings& settings, int local_ranks, pid_t helper, LineSocket socket)
      : max_restarts_(settings.max_restarts),
        policy_(settings.max_restarts),
        local_ranks_(local_ranks),
        helper_(helper),
        socket_(std::move(socket)) {}
  ~TorchMeeting() override {
    socket_ = LineSocket();  // its stdin closes: it goes
    // gone already, or taken with everything else
    if (::waitpid(helper_, nullptr, WNOHANG) != 0) return;
    ::kill(helper_, SIGKILL);
    ::waitpid(helper_, nullptr, 0);
  }
  TorchMeeting(const TorchMeeting&) = delete;
  TorchMeeting& operator=(const TorchMeeting&) = delete;

  Result<std::optional<GroupPlace>> join(SignalEvents& signals) override {
    membership_ = false;
    socket_.send("join");
    auto answer = TRY(await("joined", signals));
    if (!answer) return std::optional<GroupPlace>();
    const json& joined = *answer;
    GroupPlace place;
    place.local_ranks = local_ranks_;
    place.node = joined.value("node", 0);
    place.nodes = joined.value("nodes", 1);
    place.first_rank = joined.value("first_rank", 0);
    place.world = joined.value("world", 1);
    place.master_address = joined.value("master_addr", "localhost");
    place.master_port = joined.value("master_port", 0);
    place.agent_store = joined.value("agent_store", true);
    place.run_id = joined.value("run_id", "none");
    place.attempt = policy_.restarts();
    return std::optional(place);
  }

  int descriptor() const override { return socket_.descriptor(); }

  bool others_failed() override {
    while (const auto line = socket_.next()) {
      const json message = json::parse(*line, nullptr, false);
      if (!message.is_object()) continue;
      const std::string event = message.value("event", "");
      membership_ = membership_ || event == "membership";
      if (event == "problem") problem_ = message.value("words", "");
    }
    if (socket_.ended() && problem_.empty()) problem_ = "torch's rendezvous helper ended";
    return membership_ || !problem_.empty();
  }

  Decision conclude(const Outcome& outcome, SignalEvents& signals) override {
    if (!problem_.empty())
      return {false,
              outcome.failed ? outcome.code : 1,
              {},
              fmt::format("the rendezvous broke: {}", printable(problem_))};
    if (!outcome.failed && membership_)
      return {true, 0, {}, "machines came or went: starting again with those that are there"};
    if (!outcome.failed) {
      socket_.send("finish");
      (void)await("finished", signals);
      return {};
    }
    Decision decision = decide(policy_, outcome, max_restarts_);
    if (!decision.restart) {
      socket_.send("leave");
      (void)await("finished", signals);
    }
    return decision;
  }

 private:
  // The next message of that kind. Nothing: the user asked for the end.
  Result<std::optional<json>> await(const std::string& event, SignalEvents& signals) {
    while (true) {
      while (const auto line = socket_.next()) {
        json message = json::parse(*line, nullptr, false);
        if (!message.is_object()) continue;
        if (message.value("event", "") == event) return std::optional(std::move(message));
        if (message.value("event", "") == "problem")
          return Error{
              fmt::format("torch's rendezvous failed: {}", printable(message.value("words", ""))),
              "check --rdzv-endpoint, --nnodes and --rdzv-id on every machine, and that torch is "
              "installed in this python"};
      }
      if (socket_.ended()) return Error{"torch's rendezvous helper ended", "see the lines above"};
      if (signals.is_to_end()) return std::optional<json>();
      signals.wait(socket_.descriptor(), 200);
    }
  }

  const int max_restarts_;
  RestartPolicy policy_;
  const int local_ranks_;
  const pid_t helper_;
  LineSocket socket_;
  bool membership_ = false;
  std::string problem_;
};

}  // namespace

Result<std::unique_ptr<Meeting>> start_torch_meeting(const LaunchSettings& settings,
                                                     int local_ranks, const std::string& python,
                                                     const Endpoint& endpoint) {
  const json wanted = {{"backend", settings.backend == Backend::c10d ? "c10d" : "static"},
                       {"endpoint", fmt::format("{}:{}", endpoint.host, endpoint.port)},
                       {"run_id", settings.run_id},
                       {"min_nodes", settings.min_nodes},
                       {"max_nodes", settings.max_nodes},
                       {"local_addr", settings.local_address},
                       {"role", settings.role},
                       {"ranks", local_ranks},
                       {"max_restarts", settings.max_restarts},
                       {"conf", conf_of(settings)}};
  const std::string argument = wanted.dump();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{fmt::format("cannot start the rendezvous helper: {}", std::strerror(errno)),
                 "check ulimit -n"};
  const pid_t helper = ::fork();
  if (helper == 0) {
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execlp(python.c_str(), python.c_str(), "-u", "-c", kTorchMeetingScript, argument.c_str(),
             static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[1]);
  if (helper < 0) {
    ::close(ends[0]);
    return Error{fmt::format("cannot start the rendezvous helper: {}", std::strerror(errno)),
                 "check ulimit -u"};
  }
  return std::unique_ptr<Meeting>(
      std::make_unique<TorchMeeting>(settings, local_ranks, helper, LineSocket(ends[0])));
}

}  // namespace lockstep
