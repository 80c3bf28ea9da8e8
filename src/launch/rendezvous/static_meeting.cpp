#include "launch/rendezvous/static_meeting.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "launch/arguments/machine_facts.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kRetryEvery = 200ms;

std::int64_t conf_number(const LaunchSettings& settings, const char* name, std::int64_t usual) {
  const auto found = settings.rendezvous_conf.find(name);
  return found == settings.rendezvous_conf.end() ? usual
                                                 : parse_integer(found->second).value_or(usual);
}

json parsed(const std::string& line) {
  json message = json::parse(line, nullptr, false);
  return message.is_object() ? message : json::object();
}

template <class T>
T field(const json& message, const char* name, T usual) {
  const auto found = message.find(name);
  if (found == message.end()) return usual;
  if constexpr (std::is_same_v<T, std::string>)
    return found->is_string() ? found->get<std::string>() : usual;
  else if constexpr (std::is_same_v<T, bool>)
    return found->is_boolean() ? found->get<bool>() : usual;
  else
    return found->is_number_integer() ? found->get<T>() : usual;
}

std::string written(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

json to_json(const Outcome& outcome) {
  return {{"type", "outcome"},
          {"failed", outcome.failed},
          {"code", outcome.code},
          {"rank", outcome.rank},
          {"signature", outcome.signature},
          {"place", outcome.place},
          {"ran_ms", static_cast<std::int64_t>(outcome.ran / 1ms)}};
}

Outcome outcome_from(const json& message) {
  return {field(message, "failed", false),
          field(message, "code", 0),
          field(message, "rank", -1),
          field(message, "signature", std::string()),
          field(message, "place", std::string()),
          std::chrono::milliseconds(field<std::int64_t>(message, "ran_ms", 0))};
}

void watch(int poll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event);
}

}  // namespace

StaticMeeting::StaticMeeting(const LaunchSettings& settings, int local_ranks,
                             const Endpoint& endpoint)
    : settings_(settings),
      local_ranks_(local_ranks),
      master_(endpoint),
      control_port_(static_cast<int>(conf_number(
          settings, "control_port", endpoint.port == 65535 ? 65534 : endpoint.port + 1))),
      join_timeout_(std::chrono::seconds(
          conf_number(settings, "join_timeout", conf_number(settings, "timeout", 600)))),
      policy_(settings.max_restarts),
      poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  place_.node = settings.node_rank;
  place_.nodes = settings.max_nodes;
  place_.local_ranks = local_ranks;
  place_.master_address = endpoint.host;
  place_.run_id = settings.run_id;
}

StaticMeeting::~StaticMeeting() {
  if (poll_ >= 0) ::close(poll_);
}

int StaticMeeting::descriptor() const { return poll_; }

Result<std::optional<GroupPlace>> StaticMeeting::join(SignalEvents& signals) {
  told_to_stop_ = false;
  failing_.clear();
  if (!is_first()) return ask(signals);
  auto gathered = TRY(gather(signals));
  if (!gathered) return std::optional<GroupPlace>();
  place_.attempt = policy_.restarts();
  place_.master_port = place_.attempt == 0 ? master_.port : free_port().value_or(master_.port);
  place_.first_rank = 0;
  place_.world = local_ranks_;
  for (const auto& [number, node] : nodes_) place_.world += node.ranks;
  int first_rank = local_ranks_;
  for (auto& [number, node] : nodes_) {
    node.outcome.reset();
    node.socket.send(written({{"type", "go"},
                              {"attempt", place_.attempt},
                              {"first_rank", first_rank},
                              {"world", place_.world},
                              {"port", place_.master_port}}));
    first_rank += node.ranks;
  }
  return std::optional(place_);
}

Result<bool> StaticMeeting::gather(SignalEvents& signals) {
  if (!listening_.is_open()) {
    auto socket = TRY(ListeningSocket::on(control_port_));
    listening_ = std::move(socket);
  }
  // One that is lost before all are there may come again; it is no failure yet.
  gathering_ = true;
  const auto until = monotonic_now() + join_timeout_;
  while (true) {
    read_nodes();
    std::erase_if(nodes_, [](const auto& entry) { return entry.second.lost; });
    if (static_cast<int>(nodes_.size()) == settings_.max_nodes - 1) break;
    if (signals.is_to_end()) return false;
    if (monotonic_now() > until) {
      std::vector<std::string> missing;
      for (int number = 1; number < settings_.max_nodes; ++number)
        if (!nodes_.contains(number)) missing.push_back(std::to_string(number));
      return Error{
          fmt::format("L806 ranks-missing: node {} did not come within {}",
                      lockstep::join(missing, ", "), format_duration(join_timeout_)),
          fmt::format(
              "start lockstep launch there with the same --nnodes and --master-addr, and see that "
              "port {} of this machine can be reached; torchrun nodes need --with-torchrun",
              control_port_)};
    }
    signals.wait(listening_.descriptor(), static_cast<int>(kRetryEvery / 1ms) / 10);
  }
  gathering_ = false;
  callers_.clear();
  failing_.clear();
  return true;
}

void StaticMeeting::welcome(LineSocket caller) {
  const auto line = caller.next();
  if (!line) {
    if (!caller.ended()) callers_.push_back(std::move(caller));
    return;
  }
  const json hello = parsed(*line);
  const int number = field(hello, "node", -1);
  const auto refuse = [&](const std::string& why) {
    caller.send(written({{"type", "refused"}, {"why", why}}));
  };
  if (field(hello, "type", std::string()) != "hello") return;  // no launcher
  if (field(hello, "run_id", std::string()) != settings_.run_id)
    return refuse(fmt::format("node 0 was started with --rdzv-id={}", settings_.run_id));
  if (field(hello, "nodes", 0) != settings_.max_nodes)
    return refuse(fmt::format("node 0 was started with --nnodes={}", settings_.max_nodes));
  if (number < 1 || number >= settings_.max_nodes)
    return refuse(fmt::format("there is no node {} of {}", number, settings_.max_nodes));
  if (const auto known = nodes_.find(number); known != nodes_.end() && !known->second.lost)
    return refuse(fmt::format("node {} is there already, on {}", number, known->second.host));
  Node node;
  node.host = field(hello, "host", std::string());
  node.ranks = std::clamp(field(hello, "ranks", 1), 1, 4096);
  node.socket = std::move(caller);
  watch(poll_, node.socket.descriptor());
  nodes_.insert_or_assign(number, std::move(node));
}

void StaticMeeting::hear_callers() {
  constexpr std::size_t kMostCallers = 1024;
  pollfd ready{listening_.descriptor(), POLLIN, 0};
  while (callers_.size() < kMostCallers && ::poll(&ready, 1, 0) == 1) {
    auto caller = listening_.accept();
    if (!caller) break;  // no descriptor is free: later
    callers_.push_back(std::move(*caller));
  }
  std::vector<LineSocket> callers = std::exchange(callers_, {});
  for (LineSocket& caller : callers) welcome(std::move(caller));
}

// Everything that has come in.
void StaticMeeting::read_nodes() {
  for (auto& [number, node] : nodes_) {
    while (const auto line = node.socket.next()) {
      const json message = parsed(*line);
      const std::string type = field(message, "type", std::string());
      if (type == "failing") failing_.push_back(number);
      if (type == "outcome") node.outcome = outcome_from(message);
    }
    if (!node.socket.ended() || node.lost) continue;
    node.lost = true;
    // one that has told its success may go
    if (!node.outcome || node.outcome->failed) failing_.push_back(number);
    ::epoll_ctl(poll_, EPOLL_CTL_DEL, node.socket.descriptor(), nullptr);
  }
  // While ranks run nobody can join: who calls waits for the next attempt. Those that went are
  // known by now, so that one which comes again is not taken for a second.
  if (gathering_) hear_callers();
}

Result<std::optional<GroupPlace>> StaticMeeting::ask(SignalEvents& signals) {
  const auto until = monotonic_now() + join_timeout_;
  while (true) {
    if (signals.is_to_end()) return std::optional<GroupPlace>();
    if (monotonic_now() > until)
      return Error{fmt::format("node 0 did not answer at {}:{} within {}", printable(master_.host),
                               control_port_, format_duration(join_timeout_)),
                   "start lockstep launch there with --node-rank=0, and see that the port can be "
                   "reached from here"};
    if (!first_.is_open() || first_.ended()) {
      auto connected = LineSocket::connect(master_.host, control_port_);
      // A name may come to mean something later: in Kubernetes the master's often does.
      if (!connected && monotonic_now() + kRetryEvery > until) return std::move(connected).error();
      if (!connected || !*connected) {
        signals.wait(-1, static_cast<int>(kRetryEvery / 1ms));
        continue;
      }
      first_ = std::move(**connected);
      watch(poll_, first_.descriptor());
      first_.send(written({{"type", "hello"},
                           {"node", settings_.node_rank},
                           {"nodes", settings_.max_nodes},
                           {"ranks", local_ranks_},
                           {"host", host_name()},
                           {"run_id", settings_.run_id}}));
    }
    signals.wait(first_.descriptor(), static_cast<int>(kRetryEvery / 1ms));
    while (const auto line = first_.next()) {
      const json message = parsed(*line);
      const std::string type = field(message, "type", std::string());
      if (type == "refused")
        return usage_error(fmt::format("node 0 refused this one: {}",
                                       printable(field(message, "why", std::string()))),
                           "check --nnodes, --node-rank and --rdzv-id on every machine");
      if (type != "go") continue;
      place_.attempt = field(message, "attempt", 0);
      place_.first_rank = field(message, "first_rank", 0);
      place_.world = field(message, "world", 1);
      place_.master_port = field(message, "port", master_.port);
      return std::optional(place_);
    }
  }
}

bool StaticMeeting::others_failed() {
  if (is_first()) {
    read_nodes();
    if (!failing_.empty()) tell_failing();
    return !failing_.empty();
  }
  while (const auto line = first_.next())
    if (field(parsed(*line), "type", std::string()) == "stop") told_to_stop_ = true;
  return told_to_stop_ || first_.ended();
}

void StaticMeeting::tell_failing() {
  if (is_first()) {
    if (failing_.empty()) failing_.push_back(0);
    if (!std::exchange(told_to_stop_, true)) tell_all(written({{"type", "stop"}}));
  } else {
    first_.send(written({{"type", "failing"}}));
  }
}

void StaticMeeting::tell_all(const std::string& line) {
  for (auto& [number, node] : nodes_)
    if (!node.lost) node.socket.send(line);
}

Decision StaticMeeting::conclude(const Outcome& outcome, SignalEvents& signals) {
  return is_first() ? decide_for_all(outcome, signals) : await_decision(outcome, signals);
}

Decision StaticMeeting::decide_for_all(const Outcome& own, SignalEvents& signals) {
  if (own.failed) tell_failing();
  const auto all_told = [&] {
    read_nodes();
    if (!failing_.empty()) tell_failing();
    return std::ranges::all_of(
        nodes_, [](const auto& entry) { return entry.second.outcome || entry.second.lost; });
  };
  while (!all_told()) {
    if (signals.is_to_end()) return {false, 128 + signals.ended_by(), {}, {}};
    signals.wait(poll_, 100);
  }
  Decision decision;
  if (!failing_.empty() || own.failed) {
    const int root = failing_.empty() ? 0 : failing_.front();
    Outcome cause = own;
    std::string who;
    if (root != 0) {
      const Node& node = nodes_.at(root);
      cause =
          node.outcome && node.outcome->failed ? *node.outcome : Outcome{true, 1, -1, {}, {}, {}};
      who = node.lost || cause.rank < 0
                ? fmt::format(
                      "node {} ({}) is lost\n  next: see its launcher's last words there; with "
                      "--max-restarts it may join again\n",
                      root, printable(node.host))
                : fmt::format("rank {} failed first, on node {} ({}), with code {}\n", cause.rank,
                              root, printable(node.host), cause.code);
    }
    decision = decide(policy_, cause, settings_.max_restarts);
    if (!who.empty())
      decision.words = who + (decision.words.empty() ? "" : "lockstep: " + decision.words);
    while (!decision.words.empty() && decision.words.back() == '\n') decision.words.pop_back();
  }
  const std::string own_host = host_name();
  const std::string words = !decision.words.empty() || failing_.empty()
                                ? decision.words
                                : fmt::format("rank {} failed first, on node 0 ({}), with code {}",
                                              own.rank, own_host, own.code);
  tell_all(written({{"type", "decision"},
                    {"restart", decision.restart},
                    {"code", decision.code},
                    {"pause_ms", static_cast<std::int64_t>(decision.pause / 1ms)},
                    {"words", words}}));
  return decision;
}

Decision StaticMeeting::await_decision(const Outcome& own, SignalEvents& signals) {
  if (own.failed) tell_failing();
  first_.send(written(to_json(own)));
  while (true) {
    while (const auto line = first_.next()) {
      const json message = parsed(*line);
      if (field(message, "type", std::string()) != "decision") continue;
      return {field(message, "restart", false), field(message, "code", 0),
              std::chrono::milliseconds(field<std::int64_t>(message, "pause_ms", 0)),
              field(message, "words", std::string())};
    }
    if (first_.ended())
      return {false,
              own.failed ? own.code : 1,
              {},
              fmt::format("node 0 ({}) is lost", printable(master_.host))};
    if (signals.is_to_end()) return {false, 128 + signals.ended_by(), {}, {}};
    signals.wait(first_.descriptor(), 100);
  }
}

}  // namespace lockstep
