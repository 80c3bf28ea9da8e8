#include "sources/probe/wire_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "probes/wire/lockstep_wire.h"

namespace lockstep {
namespace {

static_assert(kStepSpanNames.size() <= LOCKSTEP_WIRE_SPANS);
static_assert(kStepSpanNames[LOCKSTEP_SPAN_COLLECTIVE_HIDDEN] == "collective_hidden" && kStepSpanNames[LOCKSTEP_SPAN_OTHER] == "other",
              "the wire's spans are a recording's, in the same order");

constexpr std::uint64_t kLongestStepNs = 86'400ULL * 1'000'000'000ULL;  // a day: more is damage

template <class T>
bool read_at(int file, std::uint64_t offset, T* into, std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  return ::pread(file, into, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

bool is_known(const lockstep_wire_header& header) {
  return header.magic == LOCKSTEP_WIRE_MAGIC && header.version == LOCKSTEP_WIRE_VERSION && header.header_bytes == sizeof(lockstep_wire_header) &&
         header.record_bytes == sizeof(lockstep_record) && header.slots == LOCKSTEP_WIRE_SLOTS;
}

// The step of a record; false when the numbers make none.
bool step_of(const lockstep_record& record, WireStep& out) {
  if (record.size < sizeof(lockstep_step)) return false;
  const lockstep_step& step = record.payload.step;
  if (step.duration_ns == 0 || step.duration_ns > kLongestStepNs || step.rank < 0) return false;
  out.end_ns = step.end_ns;
  out.step.rank = step.rank;
  out.step.index = step.index;
  out.step.duration_ms = static_cast<double>(step.duration_ns) / 1e6;
  for (std::size_t span = 0; span < kStepSpanNames.size(); ++span) {
    if ((step.spans_known >> span & 1U) == 0) continue;
    if (step.span_ns[span] > kLongestStepNs) return false;
    out.step.spans_ms[span] = static_cast<double>(step.span_ns[span]) / 1e6;
  }
  return true;
}

}  // namespace

WireReader::~WireReader() {
  for (auto& [pid, ring] : rings_) ::close(ring.file);
}

void WireReader::follow(const std::vector<int>& pids) {
  std::erase_if(rings_, [&](auto& entry) {
    if (std::find(pids.begin(), pids.end(), entry.first) != pids.end()) return false;
    ::close(entry.second.file);
    return true;
  });
  for (const int pid : pids) open_ring(pid);
}

void WireReader::open_ring(int pid) {
  const std::string path = (folder_ / ("wire-" + std::to_string(pid) + ".ring")).string();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  struct stat facts {};
  lockstep_wire_header header{};
  const bool good = ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && static_cast<std::uint64_t>(facts.st_size) >= sizeof(lockstep_wire) &&
                    read_at(file, 0, &header, 1) && is_known(header) && header.pid == pid;
  const auto known = rings_.find(pid);
  if (!good || (known != rings_.end() && known->second.inode == facts.st_ino)) {
    ::close(file);
    return;
  }
  if (known != rings_.end()) ::close(known->second.file);  // the pid was given to another process
  // The oldest slot is the one that the writer may be about to use.
  const std::uint64_t oldest = header.written >= LOCKSTEP_WIRE_SLOTS ? header.written - LOCKSTEP_WIRE_SLOTS + 1 : 0;
  rings_[pid] = {file, facts.st_ino, oldest};
}

std::vector<WireStep> WireReader::read() {
  std::vector<WireStep> steps;
  for (auto& [pid, ring] : rings_) read_ring(ring, steps);
  std::stable_sort(steps.begin(), steps.end(), [](const WireStep& a, const WireStep& b) { return a.end_ns < b.end_ns; });
  return steps;
}

void WireReader::read_ring(Ring& ring, std::vector<WireStep>& steps) {
  lockstep_wire_header header{};
  if (!read_at(ring.file, 0, &header, 1) || !is_known(header) || header.written <= ring.next) return;
  const std::uint64_t until = header.written;
  if (until - ring.next > LOCKSTEP_WIRE_SLOTS) {
    dropped_ += until - LOCKSTEP_WIRE_SLOTS - ring.next;
    ring.next = until - LOCKSTEP_WIRE_SLOTS;
  }
  const std::uint64_t first = ring.next;
  std::vector<lockstep_record> records(until - first);
  for (std::uint64_t place = first; place < until;) {  // twice where the ring's end lies between
    const std::uint64_t slot = place % LOCKSTEP_WIRE_SLOTS;
    const std::uint64_t count = std::min(until - place, LOCKSTEP_WIRE_SLOTS - slot);
    if (!read_at(ring.file, sizeof(lockstep_wire_header) + slot * sizeof(lockstep_record), &records[place - first], count)) return;
    place += count;
  }
  ring.next = until;
  // What the writer came round to meanwhile may be half old, half new.
  if (!read_at(ring.file, 0, &header, 1)) return;
  for (std::uint64_t place = first; place < until; ++place) {
    const lockstep_record& record = records[place - first];
    WireStep step;
    const bool whole = header.written < place + LOCKSTEP_WIRE_SLOTS && record.sequence == place + 1;
    if (whole && record.kind != LOCKSTEP_RECORD_STEP) continue;  // of a newer writer
    if (whole && step_of(record, step)) steps.push_back(std::move(step));
    else ++dropped_;
  }
}

}  // namespace lockstep
