// Reads the step marks that training processes write (probes/wire): one ring a process.
//
// Rings are read, never mapped: a file that shrinks under a mapping would end the reader. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "lockstep/record.hpp"

namespace lockstep {

// A step and when it ended by CLOCK_MONOTONIC.
struct WireStep {
  std::uint64_t end_ns = 0;
  StepMark step;
};

class WireReader {
 public:
  explicit WireReader(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~WireReader();
  WireReader(const WireReader&) = delete;
  WireReader& operator=(const WireReader&) = delete;

  // Reads these processes' rings, each from its oldest record on, where there is one; forgets those of others.
  void follow(const std::vector<int>& pids);
  // What was written since the last call, by time.
  std::vector<WireStep> read();

  bool any() const { return !rings_.empty(); }
  std::uint64_t dropped() const { return dropped_; }  // overwritten before they were read, or damaged

 private:
  struct Ring {
    int file = -1;
    ino_t inode = 0;
    std::uint64_t next = 0;  // the record to read next
  };
  void open_ring(int pid);
  void read_ring(Ring& ring, std::vector<WireStep>& steps);

  const std::filesystem::path folder_;
  std::map<int, Ring> rings_;  // by pid
  std::uint64_t dropped_ = 0;
};

}  // namespace lockstep
