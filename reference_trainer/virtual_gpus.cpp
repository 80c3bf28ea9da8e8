#include "reference_trainer/virtual_gpus.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/clock.hpp"
#include "base/file.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
constexpr auto kRefreshEvery = 500ms;

}  // namespace

VirtualGpus::VirtualGpus(std::vector<ComputeDevice*> devices) {
  if (devices.empty() || !devices.front()->torch_device().is_cpu()) return;
  const std::filesystem::path folder = runtime_folder();
  ::mkdir(folder.parent_path().c_str(), 0700);
  ::mkdir(folder.c_str(), 0700);
  devices_ = std::move(devices);
  file_ = folder / fmt::format("vgpu-{}.json", ::getpid());
  const std::lock_guard lock(mutex_);
  write();
}

VirtualGpus::~VirtualGpus() {
  if (!devices_.empty()) ::unlink(file_.c_str());
}

void VirtualGpus::set_waiting(bool waiting) {
  if (devices_.empty()) return;
  const std::lock_guard lock(mutex_);
  waiting_ = waiting;
  write();
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
    text += fmt::format(R"({}{{"index":{},"memory_bytes":{},"tid":{},"waiting":{}}})", i > 0 ? "," : "", devices_[i]->index(),
                        devices_[i]->memory().allocated_bytes, devices_[i]->thread_id(), waiting_);
  text += "]}";
  const std::string temporary = file_.string() + ".new";
  std::FILE* const out = std::fopen(temporary.c_str(), "w");
  if (out == nullptr) return;  // nobody is told; training goes on
  const bool whole = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (std::fclose(out) == 0 && whole) std::rename(temporary.c_str(), file_.c_str());
  written_at_ = monotonic_now();
}

}  // namespace lockstep
