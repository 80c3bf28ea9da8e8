#include "sources/ras/ras_client.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.hpp"
#include "sources/ras/ras_report.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestAnswer = 64U << 20U;  // 10,000 ranks are 3 MB
constexpr const char* kHandshake = "CLIENT PROTOCOL 2\n";
constexpr const char* kNext = "NCCL 2.28.7 and later answer, unless NCCL_RAS_ENABLE=0 is set";

// A connection that gives up at one moment, whatever it is waiting for.
class Connection {
 public:
  Connection(int socket, Clock::time_point until) : socket_(socket), until_(until) {}
  ~Connection() {
    if (socket_ >= 0) ::close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool wait_for(short events) const {
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
      pollfd entry{socket_, events, 0};
      const int ready = left > 0 ? ::poll(&entry, 1, static_cast<int>(left)) : 0;
      if (ready < 0 && errno == EINTR) continue;
      return ready > 0;
    }
  }

  bool send(std::string_view words) const {
    while (!words.empty()) {
      if (!wait_for(POLLOUT)) return false;
      const ssize_t sent = ::send(socket_, words.data(), words.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (sent <= 0) return false;
      words.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Up to the first newline, or all until the other side closes.
  std::optional<std::string> receive(bool one_line) const {
    std::string text;
    char block[16384];
    while (text.size() < kLongestAnswer) {
      if (one_line && text.find('\n') != std::string::npos) return text;
      if (!wait_for(POLLIN)) return std::nullopt;
      const ssize_t count = ::recv(socket_, block, one_line ? 1 : sizeof block, 0);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0) return std::nullopt;
      if (count == 0) return text.empty() ? std::nullopt : std::optional(text);
      text.append(block, static_cast<std::size_t>(count));
    }
    return std::nullopt;
  }

 private:
  int socket_;
  Clock::time_point until_;
};

// -1: nobody listens.
int connect_to(const RasAddress& address, Clock::time_point until) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int made =
        ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol);
    if (made < 0) continue;
    if (::connect(made, one->ai_addr, one->ai_addrlen) == 0) return made;
    if (errno == EINPROGRESS) {
      pollfd entry{made, POLLOUT, 0};
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      int problem = 0;
      socklen_t size = sizeof problem;
      if (left > 0 && ::poll(&entry, 1, static_cast<int>(left)) > 0 &&
          ::getsockopt(made, SOL_SOCKET, SO_ERROR, &problem, &size) == 0 && problem == 0)
        return made;
    }
    ::close(made);
  }
  return -1;
}

}  // namespace

RasAddress ras_address(const std::string& variable) {
  RasAddress address;
  if (variable.empty()) return address;
  const auto colon = variable.rfind(':');
  const auto bracket = variable.rfind(']');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  std::string host = has_port ? variable.substr(0, colon) : variable;
  if (has_port && colon + 1 < variable.size()) address.port = variable.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (!host.empty()) address.host = host;
  return address;
}

Result<CommunicatorCensus> ask_ras(const RasAddress& address, std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  const int socket = connect_to(address, until);
  if (socket < 0)
    return Error{
        fmt::format("no NCCL listens at {}:{}", printable(address.host), printable(address.port)),
        kNext};
  const Connection connection(socket, until);
  const auto silent = [&] {
    return Error{fmt::format("NCCL at {}:{} did not answer within {} ms", printable(address.host),
                             printable(address.port), patience.count()),
                 "ask again: it waits for ranks that do not answer"};
  };
  if (!connection.send(kHandshake)) return silent();
  const auto greeting = connection.receive(true);
  if (!greeting) return silent();
  if (!greeting->starts_with("SERVER PROTOCOL"))
    return Error{fmt::format("what listens at {}:{} is no NCCL", printable(address.host),
                             printable(address.port)),
                 "set NCCL_RAS_ADDR to another port, for the job and for lockstep"};
  if (!connection.send("SET FORMAT json\n")) return silent();
  const auto format = connection.receive(true);
  if (!format) return silent();
  if (!format->starts_with("OK"))
    return Error{"this NCCL tells its communicators only as text",
                 "it tells them as JSON since 2.28.7"};
  if (!connection.send("STATUS\n")) return silent();
  const auto answer = connection.receive(false);
  if (!answer) return silent();
  auto census = parse_ras_json(*answer);
  if (!census)
    return Error{"NCCL's answer could not be read",
                 "please report it with the first lines of: ncclras -f json"};
  return std::move(*census);
}

Result<CommunicatorCensus> ask_all_ras(const RasAddress& address,
                                       std::chrono::milliseconds patience, int most) {
  constexpr int kNothingNew = 3;
  const auto until = Clock::now() + patience;
  auto known = ask_ras(address, patience);
  int nothing_new = 0;
  for (int asked = 1; known && asked < most && nothing_new < kNothingNew; ++asked) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) break;
    auto more = ask_ras(address, left);
    if (!more) break;
    const std::size_t before = known->communicators.size();
    join_census(*known, std::move(*more));
    nothing_new = known->communicators.size() > before ? 0 : nothing_new + 1;
  }
  return known;
}

}  // namespace lockstep
