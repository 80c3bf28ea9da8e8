#include "reference_trainer/step_marks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "probes/wire/ring.h"

namespace lockstep {

StepMarks::StepMarks(int rank, int world, Wire wire) {
  step_.rank = rank;
  if (wire == Wire::none) return;
  const char* const folder = std::getenv("LOCKSTEP_PROBE_FOLDER");  // of lockstep profile
  file_.emplace("wire", ".ring", folder != nullptr ? folder : "");
  ::unlink(file_->path().c_str());  // of a process that had our number before
  const int file = ::open(file_->path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  const std::uint64_t bytes = lockstep_wire_bytes(LOCKSTEP_WIRE_SLOTS);
  // not sparse: a full disk would end us at the first write
  if (::posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0) {
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) wire_ = static_cast<lockstep_wire_header*>(mapped);
  }
  ::close(file);
  if (wire_ != nullptr)
    lockstep_ring_open(wire_, LOCKSTEP_WIRE_SLOTS, ::getpid(),
                       static_cast<std::uint64_t>(monotonic_now().count()));
  if (wire_ == nullptr) return;
  wire_->rank_plus_1 = rank + 1;
  wire_->world_size = world;
}

void StepMarks::fact(const std::string& words) {
  std::array<char, 240> text{};  // zeros behind the words: the slot held something else before
  words.copy(text.data(), text.size());
  if (wire_ != nullptr) lockstep_ring_write(wire_, LOCKSTEP_RECORD_FACT, text.data(), text.size());
}

void StepMarks::count_collectives(int calls) {
  if (!std::exchange(told_collectives_, true)) fact("collectives a_step=" + std::to_string(calls));
}

StepMarks::~StepMarks() {
  if (wire_ != nullptr) ::munmap(wire_, lockstep_wire_bytes(LOCKSTEP_WIRE_SLOTS));
}

void StepMarks::begin(std::int64_t index) {
  step_.index = index;
  began_ = monotonic_now();
  spans_.fill({});
}

void StepMarks::end() {
  const auto now = monotonic_now();
  const auto length = now - began_;
  std::chrono::nanoseconds named{};
  for (std::size_t i = 0; i < spans_.size(); ++i)
    if (i != LOCKSTEP_SPAN_COLLECTIVE_HIDDEN && i != LOCKSTEP_SPAN_OTHER) named += spans_[i];
  spans_[LOCKSTEP_SPAN_OTHER] = std::max(length - named, std::chrono::nanoseconds(0));
  if (wire_ == nullptr) return;
  step_.end_ns = static_cast<std::uint64_t>(now.count());
  step_.duration_ns = static_cast<std::uint64_t>(length.count());
  step_.spans_known = (1U << (LOCKSTEP_SPAN_OTHER + 1)) - 1;
  for (std::size_t i = 0; i < spans_.size(); ++i)
    step_.span_ns[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(0, spans_[i].count()));
  lockstep_ring_write(wire_, LOCKSTEP_RECORD_STEP, &step_, sizeof step_);
}

}  // namespace lockstep
