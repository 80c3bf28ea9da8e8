// A process that writes a ring, as the trainer and the probes do.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

// C, which C++ programs share.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include "probes/wire/ring.h"
#pragma GCC diagnostic pop

namespace lockstep::testing {

class RingWriter {
 public:
  explicit RingWriter(const std::filesystem::path& folder, int pid,
                      std::uint32_t slots = LOCKSTEP_WIRE_SLOTS, const char* prefix = "wire-")
      : bytes_(lockstep_wire_bytes(slots)) {
    const std::string path = (folder / (prefix + std::to_string(pid) + ".ring")).string();
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(bytes_)), 0);
    header_ = static_cast<lockstep_wire_header*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
    lockstep_ring_open(header_, slots, pid, 0);
  }
  ~RingWriter() { ::munmap(header_, bytes_); }
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  lockstep_wire_header& header() { return *header_; }

  void step(std::int64_t index, int rank = 0) {
    lockstep_step step{};
    step.index = index;
    step.rank = rank;
    step.end_ns = static_cast<std::uint64_t>(1'000'000 * (index + 1));
    step.duration_ns = 80'000'000;
    step.spans_known = 1U << LOCKSTEP_SPAN_FORWARD | 1U << LOCKSTEP_SPAN_OPTIMIZER;
    step.span_ns[LOCKSTEP_SPAN_FORWARD] = 30'000'000;
    lockstep_ring_write(header_, LOCKSTEP_RECORD_STEP, &step, sizeof step);
  }
  void span(const lockstep_span_record& span) {
    lockstep_ring_write(header_, LOCKSTEP_RECORD_SPAN, &span, sizeof span);
  }
  void fact(const std::string& words) {
    char text[240] = {};
    words.copy(text, sizeof text);
    lockstep_ring_write(header_, LOCKSTEP_RECORD_FACT, text, sizeof text);
  }

 private:
  std::size_t bytes_;
  lockstep_wire_header* header_;
};

// A span in microseconds, for tests that count in them.
inline lockstep_span_record span_at(lockstep_span part, std::uint64_t from_us, std::uint64_t to_us,
                                    const char* what = "", std::uint32_t line = 0,
                                    std::uint32_t flags = 0) {
  lockstep_span_record span{};
  span.begin_ns = from_us * 1000;
  span.end_ns = to_us * 1000;
  span.busy_ns = span.end_ns - span.begin_ns;
  span.count = 1;
  span.part = part;
  span.flags = flags;
  span.line = line;
  std::strncpy(span.what, what, sizeof span.what);
  if (line > 0) std::strncpy(span.file, "/home/me/train.py", sizeof span.file);
  return span;
}

}  // namespace lockstep::testing
