// Any recordings of several machines as one: no crash, records in order, and GPUs and times that
// exist. A byte 0x1e ends one of them.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "signals/derive_signals.hpp"
#include "sources/merged/merged_recordings.hpp"
#include "timeline/timeline_builder.hpp"

namespace {

// Files, since each is read twice; in memory, since they are many.
class Recordings {
 public:
  explicit Recordings(std::string_view all) {
    for (const std::string_view content : lockstep::split(all, '\x1e')) {
      const int file = ::memfd_create("recording", 0);
      if (file < 0 ||
          ::write(file, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
        std::abort();
      files_.push_back(file);
      paths.push_back("/proc/self/fd/" + std::to_string(file));
      if (files_.size() == 4) return;
    }
  }
  ~Recordings() {
    for (const int file : files_) ::close(file);
  }
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  std::vector<std::string> paths;

 private:
  std::vector<int> files_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const Recordings recordings(std::string_view(reinterpret_cast<const char*>(data), size));
  if (recordings.paths.empty()) return 0;
  auto source = lockstep::open_merged_recordings(recordings.paths);
  if (!source) return 0;
  const lockstep::Machine& machine = (*source)->machine();
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (machine.gpus[i].index != static_cast<int>(i)) std::abort();
  lockstep::TimelineBuilder builder(machine, lockstep::SourceKind::recording, "fuzz");
  while (true) {
    auto next = (*source)->next(std::chrono::milliseconds(0));
    if (!next) std::abort();
    auto* const record = std::get_if<lockstep::Record>(&*next);
    if (record == nullptr) break;
    if (!std::isfinite(record->t_ms)) std::abort();
    if (const auto* tick = std::get_if<lockstep::GpuTick>(&record->content))
      for (const lockstep::GpuSample& sample : *tick)
        if (sample.index < 0 || sample.index >= static_cast<int>(machine.gpus.size())) std::abort();
    builder.add(*record);
  }
  (*source)->repair_note();
  lockstep::derive_signals(builder.build());
  return 0;
}
