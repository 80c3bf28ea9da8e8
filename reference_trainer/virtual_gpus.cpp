#include "reference_trainer/virtual_gpus.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/clock.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
constexpr auto kRefreshEvery = 500ms;

}  // namespace

VirtualGpus::VirtualGpus(std::vector<ComputeDevice*> devices) {
  if (devices.empty() || !devices.front()->torch_device().is_cpu()) return;
  devices_ = std::move(devices);
  file_.emplace("vgpu", ".json");
  if (file_->path().empty()) {
    devices_.clear();
    return;
  }
  const std::lock_guard lock(mutex_);
  write();
}

void VirtualGpus::set_waiting(bool waiting) {
  if (devices_.empty()) return;
  const std::lock_guard lock(mutex_);
  waiting_ = waiting;
  write();
}

void VirtualGpus::set_hot(double clock) {
  const std::lock_guard lock(mutex_);
  hot_clock_ = clock;
}

void VirtualGpus::refresh() {
  if (devices_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (monotonic_now() - written_at_ >= kRefreshEvery) write();
}

// Twice a step where ranks meet: written in one piece by rename, and never flushed to a disk.
void VirtualGpus::write() {
  std::string text = fmt::format(R"({{"pid":{},"gpus":[)", ::getpid());
  for (std::size_t i = 0; i < devices_.size(); ++i)
    text += fmt::format(R"({}{{"index":{},"memory_bytes":{},"tid":{},"waiting":{}{}}})",
                        i > 0 ? "," : "", devices_[i]->index(), devices_[i]->allocated_bytes(),
                        devices_[i]->thread_id(), waiting_,
                        hot_clock_ ? fmt::format(R"(,"hot_clock":{:.2f})", *hot_clock_) : "");
  text += "]}";
  const std::string temporary = file_->path() + ".new";
  const int out =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (out < 0) return;  // nobody is told; training goes on
  const bool whole = ::write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (::close(out) == 0 && whole) std::rename(temporary.c_str(), file_->path().c_str());
  written_at_ = monotonic_now();
}

}  // namespace lockstep
