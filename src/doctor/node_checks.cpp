#include "doctor/node_checks.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "launch/arguments/machine_facts.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kQuestion = "lockstep-doctor 1 ";      // and the asker's time
constexpr std::string_view kReply = "lockstep-doctor-answer 1 ";  // and the answerer's
// logs and traces of ranks are put side by side by their clocks
constexpr double kClockApartMs = 100;
constexpr int kRounds = 8;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

bool wait_for(int socket, short what, std::chrono::milliseconds limit) {
  pollfd look{socket, what, 0};
  return ::poll(&look, 1, static_cast<int>(limit.count())) == 1;
}

std::optional<std::string> read_line(int socket, std::chrono::milliseconds limit) {
  std::string line;
  const auto until = monotonic_now() + limit;
  while (line.size() < 200) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - monotonic_now());
    if (left <= 0ms || !wait_for(socket, POLLIN, left)) return std::nullopt;
    char letter = 0;
    if (::recv(socket, &letter, 1, 0) != 1) return std::nullopt;
    if (letter == '\n') return line;
    line += letter;
  }
  return std::nullopt;
}

bool write_line(int socket, const std::string& line) {
  return ::send(socket, line.data(), line.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(line.size());
}

struct Resolved {
  std::string address;
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// All addresses that a name means, the most wanted first.
std::vector<Resolved> resolve(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return {};
  std::vector<Resolved> all;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Resolved& result = all.emplace_back();
    std::memcpy(&result.storage, entry->ai_addr, entry->ai_addrlen);
    result.length = entry->ai_addrlen;
    char text[NI_MAXHOST] = "";
    ::getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    result.address = text;
  }
  if (found != nullptr) ::freeaddrinfo(found);
  return all;
}

// errno of the attempt; 0: connected; ETIMEDOUT: no answer within the limit.
int connect_within(int socket, const Resolved& to, std::chrono::milliseconds limit) {
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&to.storage), to.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(socket, POLLOUT, limit)) return ETIMEDOUT;
  int problem = 0;
  socklen_t size = sizeof problem;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &problem, &size);
  return problem;
}

struct ClockLook {
  double way_ms = 0;     // there and back, the fastest of some
  double offset_ms = 0;  // of their clock against ours, known to half the way
};

// As NTP does it: the fastest round trip tells best.
std::optional<ClockLook> look_at_clock(int socket, std::chrono::milliseconds limit) {
  std::optional<ClockLook> best;
  for (int round = 0; round < kRounds; ++round) {
    const double sent_ms = to_ms(unix_now());
    if (!write_line(socket, fmt::format("{}{:.3f}\n", kQuestion, sent_ms))) break;
    const auto line = read_line(socket, limit);
    if (!line || !line->starts_with(kReply)) break;
    const double back_ms = to_ms(unix_now());
    const double theirs = std::strtod(line->c_str() + kReply.size(), nullptr);
    const ClockLook look{back_ms - sent_ms, theirs - (sent_ms + back_ms) / 2};
    if (!best || look.way_ms < best->way_ms) best = look;
  }
  return best;
}

void ask_node(const std::string& node, int port, std::chrono::milliseconds limit, Checks& checks) {
  const std::string name = printable(node);
  const std::vector<Resolved> addresses = resolve(node, port);
  std::vector<std::string> words;
  for (const Resolved& to : addresses) words.push_back(to.address);
  checks.push_back(
      {"nodes", fmt::format("{} means an address", name), words.empty() ? Answer::no : Answer::yes,
       words.empty() ? "no such name here" : join(words, ", "),
       words.empty() ? "add it to /etc/hosts or DNS on this machine; lockstep explain L804" : ""});
  if (addresses.empty()) return;
  // One that answers is enough: a name may mean an IPv6 address that leads nowhere before the one
  // that does.
  int problem = 0;
  bool refused = false;  // by a machine that is there: tells more than a way that leads nowhere
  std::string reached;
  std::optional<Descriptor> socket;
  for (const Resolved& to : addresses) {
    socket.emplace(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    problem = socket->get() < 0 ? errno : connect_within(socket->get(), to, limit);
    reached = to.address;
    if (problem == 0) break;
    refused = refused || problem == ECONNREFUSED;
  }
  if (problem != 0 && refused) problem = ECONNREFUSED;
  Check reach{"nodes", fmt::format("{} can be reached on port {}", name, port), Answer::no,
              std::strerror(problem), ""};
  if (problem == 0) {
    reach.answer = Answer::yes;
    reach.detail = addresses.size() == 1 ? "connected" : fmt::format("connected to {}", reached);
  } else if (problem == ECONNREFUSED) {
    reach.answer = Answer::unknown;
    reach.detail = fmt::format(
        "it answers that nobody listens there, or a firewall rejects; to be sure run on {}: "
        "lockstep doctor --answer {}",
        name, port);
  } else if (problem == ETIMEDOUT) {
    reach.detail = fmt::format("no answer within {}: a firewall, or the machine is down",
                               format_duration(limit));
    reach.next = fmt::format(
        "open the port between the machines, and those above 1024 for NCCL and Gloo; see it from "
        "there: lockstep doctor --answer {}",
        port);
  } else {
    reach.next =
        "check the route and the interface (ip route get ADDRESS); NCCL_SOCKET_IFNAME and "
        "GLOO_SOCKET_IFNAME choose one";
  }
  checks.push_back(reach);
  Check clock{
      "nodes", fmt::format("clock of {} agrees", name), Answer::unknown,
      fmt::format("nobody there tells it; run on {}: lockstep doctor --answer {}", name, port), ""};
  if (problem == 0) {
    const int yes = 1;
    ::setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (const auto look =
            look_at_clock(socket->get(), std::min(limit, std::chrono::milliseconds(2000)))) {
      const bool agrees = std::abs(look->offset_ms) < kClockApartMs + look->way_ms / 2;
      clock.answer = agrees ? Answer::yes : Answer::no;
      clock.detail =
          fmt::format("{:+.1f} ms against ours, known to {:.2f} ms; {:.2f} ms there and back",
                      look->offset_ms, look->way_ms / 2, look->way_ms);
      if (!agrees)
        clock.next =
            "run an NTP client on both (chronyc tracking): logs and traces of ranks are put side "
            "by side by their clocks";
    }
  }
  checks.push_back(clock);
}

}  // namespace

Status answer_nodes(int port, const std::function<bool()>& stop,
                    const std::function<void(const std::string&)>& asked) {
  const Descriptor listener(listening_socket(port));
  if (listener.get() < 0)
    return Error{
        fmt::format("port {} cannot be listened on: {}", port, std::strerror(-listener.get())),
        fmt::format("choose another: lockstep doctor --answer {}",
                    port < 65000 ? port + 100 : port - 100)};
  while (!stop()) {
    if (!wait_for(listener.get(), POLLIN, 200ms)) continue;
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    const Descriptor peer(
        ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC));
    if (peer.get() < 0) continue;
    char text[NI_MAXHOST] = "";
    ::getnameinfo(reinterpret_cast<sockaddr*>(&from), length, text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST);
    const int yes = 1;
    ::setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    bool any = false;
    for (int round = 0; round < 4 * kRounds && !stop(); ++round) {
      const auto line = read_line(peer.get(), 1000ms);
      if (!line || !line->starts_with(kQuestion)) break;
      any = true;
      if (!write_line(peer.get(), fmt::format("{}{:.3f}\n", kReply, to_ms(unix_now())))) break;
    }
    if (any) asked(text);
  }
  return Done{};
}

Checks ask_nodes(const std::vector<std::string>& nodes, int port, std::chrono::milliseconds limit) {
  Checks checks;
  for (const std::string& node : nodes) ask_node(node, port, limit, checks);
  return checks;
}

}  // namespace lockstep
