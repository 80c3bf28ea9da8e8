// The daemon's end of the profiler's socket.
//
// Processes ask at the abstract name "dynolog", or at a file of that name in the folder
// KINETO_IPC_SOCKET_DIR, which also works across network namespaces. Who holds the name answers; a
// second daemon steps aside. Where lockstep started the processes it rests at the file itself, and
// hands it over to whoever wants to trace.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "capture/kineto_messages.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

class KinetoSocket {
 public:
  static Result<KinetoSocket> at_abstract_name();
  // Takes the place of a lockstep that rests there, and gives it back at the end.
  static Result<KinetoSocket> in_folder(const std::filesystem::path& folder);

  KinetoSocket(KinetoSocket&& other) noexcept;
  KinetoSocket& operator=(KinetoSocket&&) = delete;
  ~KinetoSocket();

  int descriptor() const { return socket_; }

  // After a fork the other process goes on with it: this one closes its end and leaves the file
  // alone.
  void leave_to_another() { path_.clear(); }

  struct Heard {
    KinetoRequest request;
    int pid = 0;  // the sender's as this process sees it: in a container it calls itself otherwise
    sockaddr_un address{};
    socklen_t address_size = 0;
  };
  // Nothing: none is waiting, or what came was no request.
  std::optional<Heard> receive();
  // At once: the process waits for 90 ms.
  bool answer(const Heard& heard, std::string_view configuration);

 private:
  explicit KinetoSocket(int socket) : socket_(socket) {}

  int socket_ = -1;
  std::filesystem::path path_;     // of a file's socket
  std::filesystem::path resting_;  // where the one that rested there is kept meanwhile
};

// The file that says that the daemon at the socket beside it is lockstep's, and hands over.
inline constexpr const char* kRestingMark = "lockstep-rests-here";
inline constexpr const char* kDaemonName = "dynolog";

}  // namespace lockstep
