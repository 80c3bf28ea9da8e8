#include "reference_trainer/step_marks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "probes/wire/ring.h"

namespace lockstep {

StepMarks::StepMarks(int rank, Wire wire) {
  step_.rank = rank;
  if (wire == Wire::none) return;
  file_.emplace("wire", ".ring");
  ::unlink(file_->path().c_str());  // of a process that had our number before
  const int file = ::open(file_->path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (::posix_fallocate(file, 0, sizeof(lockstep_wire)) == 0) {  // not sparse: a full disk would end us at the first write
    void* const mapped = ::mmap(nullptr, sizeof(lockstep_wire), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) wire_ = static_cast<lockstep_wire*>(mapped);
  }
  ::close(file);
  if (wire_ == nullptr) return;
  lockstep_wire_header& header = wire_->header;
  header.version = LOCKSTEP_WIRE_VERSION;
  header.header_bytes = sizeof(lockstep_wire_header);
  header.record_bytes = sizeof(lockstep_record);
  header.slots = LOCKSTEP_WIRE_SLOTS;
  header.pid = ::getpid();
  header.started_ns = static_cast<std::uint64_t>(monotonic_now().count());
  __atomic_store_n(&header.magic, LOCKSTEP_WIRE_MAGIC, __ATOMIC_RELEASE);  // last: readers look for it
}

StepMarks::~StepMarks() {
  if (wire_ != nullptr) ::munmap(wire_, sizeof(lockstep_wire));
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
  step_.spans_known &= ~((1U << LOCKSTEP_SPAN_EVALUATION) | (1U << LOCKSTEP_SPAN_GC));  // it has neither
  for (std::size_t i = 0; i < spans_.size(); ++i) step_.span_ns[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(0, spans_[i].count()));
  lockstep_ring_write(wire_, LOCKSTEP_RECORD_STEP, &step_, sizeof step_);
}

}  // namespace lockstep
