// What training processes tell while they run: their steps, with where the time went, and facts
// about how they are set up.
//
// Processes that mark their steps themselves (lockstep-train) and those with a probe look the same
// from here on. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <variant>
#include <vector>

#include "lockstep/record.hpp"
#include "sources/probe/collective_times.hpp"
#include "sources/probe/step_accountant.hpp"
#include "sources/probe/wire_reader.hpp"

namespace lockstep {

struct ProbeRecord {
  std::uint64_t end_ns = 0;  // CLOCK_MONOTONIC
  // a collective's times are still nanoseconds of that clock, in milliseconds
  std::variant<StepMark, ProbeFact, CollectiveCall> content;
};

// On a timeline whose clock is `offset_ms` ahead of CLOCK_MONOTONIC.
Record on_timeline(ProbeRecord record, double offset_ms);

class ProbeReader {
 public:
  using DeviceWork = DeviceAccountant::Work;
  explicit ProbeReader(std::filesystem::path folder, DeviceWork device_work = DeviceWork::counted)
      : wire_(std::move(folder)), device_work_(device_work) {}

  void follow(const std::vector<int>& pids) { wire_.follow(pids); }
  void follow_all() { wire_.follow_all(); }

  // What came since the last call, by time.
  std::vector<ProbeRecord> read() { return read(StepAccountant::Until::settled); }
  // The same, and what was kept back because more might come.
  std::vector<ProbeRecord> read_to_the_end();

  bool any() const { return wire_.any(); }
  std::uint64_t dropped() const { return wire_.dropped() + damaged_; }
  // Kernels and copies of which CUPTI did not say when they ran.
  std::uint64_t without_times() const { return without_times_; }
  // Whether a process of this role wrote anything.
  bool heard(lockstep_role role) const { return heard_[role]; }

 private:
  std::vector<ProbeRecord> read(StepAccountant::Until until);
  void take(const WireOwner& owner, const lockstep_record& record,
            std::vector<ProbeRecord>& records);
  void take_collectives(StepAccountant::Until until, std::vector<ProbeRecord>& records);

  WireReader wire_;
  DeviceWork device_work_;
  struct Process {
    int rank = 0;
    StepAccountant accountant;
    CollectiveTimes collectives;
    // by DDP's own records: of the gradients' all-reduce, what ran beside the backward pass
    double hidden_of_a_sync_ms = 0;
  };
  std::map<int, Process> processes_;  // ranks, by pid
  struct Fetches {
    std::int64_t count = 0;
    double total_ms = 0;
    double longest_ms = 0;
    std::uint64_t newest_ns = 0;
    std::uint64_t loader = 0;
  };
  std::map<int, Fetches> fetches_;  // of loader workers, by their rank's pid
  bool heard_[LOCKSTEP_ROLES] = {};
  std::uint64_t damaged_ = 0;
  std::uint64_t without_times_ = 0;
};

}  // namespace lockstep
