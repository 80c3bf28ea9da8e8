#include "launch/rendezvous/line_socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "launch/arguments/machine_facts.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kLongestMessage = 1U << 20U;

void notice_silence(int descriptor) {
  const int on = 1;
  const int idle_s = 5;
  const int between_s = 5;
  const int times = 3;
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

LineSocket::LineSocket(int descriptor) : descriptor_(descriptor) { notice_silence(descriptor); }
LineSocket::LineSocket(LineSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      begun_(std::move(other.begun_)),
      ended_(other.ended_) {}
LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(begun_, other.begun_);
  std::swap(ended_, other.ended_);
  return *this;
}
LineSocket::~LineSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::optional<LineSocket>> LineSocket::connect(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::string plain = host;
  if (plain.size() > 1 && plain.front() == '[' && plain.back() == ']')
    plain = plain.substr(1, plain.size() - 2);
  if (const int problem =
          ::getaddrinfo(plain.c_str(), std::to_string(port).c_str(), &wanted, &found);
      problem != 0)
    return Error{fmt::format("L804 host-name-unresolvable: the address '{}' means nothing here: {}",
                             printable(host), ::gai_strerror(problem)),
                 "give an IP address, or a name that every machine knows: --master-addr=10.0.0.1"};
  std::optional<LineSocket> connected;
  for (const addrinfo* address = found; address != nullptr && !connected;
       address = address->ai_next) {
    const int descriptor = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    // A host that is not up yet must not hold us for the kernel's two minutes.
    const timeval patience{2, 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (::connect(descriptor, address->ai_addr, address->ai_addrlen) == 0)
      connected.emplace(descriptor);
    else
      ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return connected;
}

bool LineSocket::send(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t sent = ::send(descriptor_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      ended_ = true;
      return false;
    }
    done += static_cast<std::size_t>(sent);
  }
  return true;
}

std::optional<std::string> LineSocket::next() {
  while (descriptor_ >= 0) {
    if (const auto end = begun_.find('\n'); end != std::string::npos) {
      std::string line = begun_.substr(0, end);
      begun_.erase(0, end + 1);
      return line;
    }
    char block[4096];
    const ssize_t got = ::recv(descriptor_, block, sizeof block, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    if (got <= 0 || begun_.size() > kLongestMessage) {
      ended_ = true;
      return std::nullopt;
    }
    begun_.append(block, static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}
ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
ListeningSocket::~ListeningSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<ListeningSocket> ListeningSocket::on(int port) {
  ListeningSocket socket;
  socket.descriptor_ = listening_socket(port);
  if (socket.descriptor_ >= 0) return socket;
  const int problem = -std::exchange(socket.descriptor_, -1);
  return Error{
      fmt::format("L801 port-in-use: cannot listen on port {}: {}", port, std::strerror(problem)),
      "see `ss -ltnp`; choose another: --master-port, or --rdzv-conf=control_port=PORT on every "
      "machine"};
}

std::optional<LineSocket> ListeningSocket::accept() {
  const int caller = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
  if (caller < 0) return std::nullopt;
  return LineSocket(caller);
}

}  // namespace lockstep
