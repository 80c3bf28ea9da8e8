#include "capture/kineto_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

int open_socket() {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  // the kernel says who sends, in our own numbers
  if (socket >= 0) ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
  return socket;
}

Error cannot_listen(const std::string& where, int error_number) {
  return {fmt::format("cannot listen for PyTorch's profiler at {}: {}", printable(where),
                      std::strerror(error_number)),
          "run as the user who runs the training, on the same machine"};
}

Error another_daemon(const std::string& where) {
  return {fmt::format("another daemon answers PyTorch's profiler here: {} is taken (dynolog, or "
                      "another lockstep trace)",
                      printable(where)),
          "let that one trace (dyno gputrace --log-file /tmp/t.json) and then: lockstep diagnose "
          "/tmp/t_*.json; or stop it"};
}

// A path longer than an address is reached through its folder's descriptor.
bool set_path(sockaddr_un& address, const fs::path& path) {
  const std::string text = path.string();
  if (text.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return true;
}

bool somebody_listens(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!set_path(address, path)) return true;
  const int socket = open_socket();
  if (socket < 0) return true;
  const bool connected =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return connected;
}

// Of a tracer that was killed the place is given back first. False: one that lives has taken it.
bool restore_resting(const fs::path& folder, const fs::path& name) {
  const std::string prefix = std::string(kDaemonName) + ".resting.";
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string file = entry->path().filename().string();
    if (!file.starts_with(prefix)) continue;
    const auto pid = parse_integer(std::string_view(file).substr(prefix.size()));
    if (pid && *pid > 0 && *pid != ::getpid() && ::kill(static_cast<pid_t>(*pid), 0) == 0)
      return false;
    std::error_code ignored;
    fs::rename(entry->path(), name, ignored);
  }
  return true;
}

}  // namespace

Result<KinetoSocket> KinetoSocket::at_abstract_name() {
  KinetoSocket result(open_socket());
  if (result.socket_ < 0) return cannot_listen("its socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The name ends in a zero that counts: 9 bytes behind the family.
  std::memcpy(address.sun_path + 1, kDaemonName, std::strlen(kDaemonName) + 1);
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(kDaemonName) + 1);
  if (::bind(result.socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == EADDRINUSE) return another_daemon("the name 'dynolog'");
    return cannot_listen("the name 'dynolog'", errno);
  }
  return result;
}

Result<KinetoSocket> KinetoSocket::in_folder(const fs::path& folder) {
  const fs::path name = folder / kDaemonName;
  std::error_code ignored;
  const bool rests = fs::exists(folder / kRestingMark, ignored);
  // Only a socket that nobody listens at is ever replaced: the folder's name is another process's
  // word.
  if (const auto kind = fs::symlink_status(name, ignored).type();
      kind != fs::file_type::not_found && kind != fs::file_type::socket)
    return cannot_listen(name.string(), EEXIST);
  if (!rests && fs::exists(name, ignored) && somebody_listens(name))
    return another_daemon(name.string());
  if (rests && !restore_resting(folder, name)) return another_daemon(name.string());

  KinetoSocket result(open_socket());
  if (result.socket_ < 0) return cannot_listen(name.string(), errno);
  // Bound beside and moved into place, so that there is no moment without an answer.
  const fs::path beside = folder / fmt::format("{}.{}", kDaemonName, ::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!set_path(address, beside)) return cannot_listen(name.string(), ENAMETOOLONG);
  fs::remove(beside, ignored);
  if (::bind(result.socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return cannot_listen(name.string(), errno);
  const fs::path kept = folder / fmt::format("{}.resting.{}", kDaemonName, ::getpid());
  if (rests && ::link(name.c_str(), kept.c_str()) == 0) result.resting_ = kept;
  if (::rename(beside.c_str(), name.c_str()) != 0) {
    const int error_number = errno;
    fs::remove(beside, ignored);
    fs::remove(kept, ignored);
    result.resting_.clear();
    return cannot_listen(name.string(), error_number);
  }
  result.path_ = name;
  return result;
}

KinetoSocket::KinetoSocket(KinetoSocket&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      path_(std::exchange(other.path_, {})),
      resting_(std::exchange(other.resting_, {})) {}

KinetoSocket::~KinetoSocket() {
  std::error_code ignored;
  if (!resting_.empty())
    fs::rename(resting_, path_, ignored);
  else if (!path_.empty())
    fs::remove(path_, ignored);
  if (socket_ >= 0) ::close(socket_);
}

std::optional<KinetoSocket::Heard> KinetoSocket::receive() {
  std::array<char, 8192> bytes;  // left uninitialised: recvmsg fills what is used
  alignas(cmsghdr) std::array<char, 256> control;
  Heard heard;
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_name = &heard.address;
  message.msg_namelen = sizeof(heard.address);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket_, &message, 0);
  if (got < 0) return std::nullopt;
  heard.address_size = message.msg_namelen;
  for (cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr;
       entry = CMSG_NXTHDR(&message, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(entry), sizeof(sender));
    heard.pid = sender.pid;
  }
  auto request = parse_request({bytes.data(), static_cast<std::size_t>(got)});
  if (!request) return std::nullopt;
  heard.request = std::move(*request);
  return heard;
}

bool KinetoSocket::answer(const Heard& heard, std::string_view configuration) {
  const std::string text = answer_of(configuration);
  const auto send = [&](const sockaddr_un& address, socklen_t size) {
    return ::sendto(socket_, text.data(), text.size(), MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address), size) >= 0;
  };
  if (send(heard.address, heard.address_size)) return true;
  // A file's address is a path as the process sees it: from a container through its own root.
  if (heard.address.sun_path[0] == '\0') return false;
  sockaddr_un through{};
  through.sun_family = AF_UNIX;
  return set_path(through, fmt::format("/proc/{}/root{}", heard.pid, heard.address.sun_path)) &&
         send(through, sizeof(through));
}

}  // namespace lockstep
