#include "runs/probe_session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {

Result<ProbeSession> ProbeSession::start(const ProbeChoice& probes) {
  ProbeSession session;
  session.probes_ = probes;
  if (!probes.any_inside()) return session;
  const std::filesystem::path parent = runtime_folder();
  ::mkdir(parent.c_str(), 0700);
  std::string path = (parent / "profile-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr)  // 0700
    return Error{fmt::format("cannot make a folder in {}: {}", printable(parent.string()),
                             std::strerror(errno)),
                 "name one that is yours: XDG_RUNTIME_DIR=/tmp/mine, or run with --probe none"};
  session.folder_ = path;
  session.will_ = LastWill(path);
  auto probed = TRY(with_probes(own_variables(), probes, session.folder_));
  session.probes_ = probed.probes;
  session.left_out_ = std::move(probed.left_out);
  // CUPTI has one user
  if (probed.probes.python && !probed.probes.cuda) session.resting_ = RestingDaemon::start();
  for (const auto& [name, value] : session.resting_.variables()) probed.variables[name] = value;
  session.environment_ = as_entries(probed.variables);
  return session;
}

ProbeSession::ProbeSession(ProbeSession&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      probes_(other.probes_),
      left_out_(std::move(other.left_out_)),
      environment_(std::exchange(other.environment_, std::nullopt)),
      will_(std::move(other.will_)),
      resting_(std::move(other.resting_)) {}

ProbeSession::~ProbeSession() {
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void ProbeSession::stop_measuring() const {
  if (folder_.empty()) return;
  const int file = ::open((folder_ / "stop").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
}

}  // namespace lockstep
