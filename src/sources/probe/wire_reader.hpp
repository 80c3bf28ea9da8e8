// Reads the rings that training processes write (probes/wire): records as they are, with who wrote
// them.
//
// Rings are read, never mapped: a file that shrinks under a mapping would end the reader. One
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probes/wire/lockstep_wire.h"

namespace lockstep {

// The process that a ring belongs to, by its header.
struct WireOwner {
  int pid = 0;
  int parent_pid = 0;
  std::optional<int> rank;
  std::optional<int> world_size;
  lockstep_role role = LOCKSTEP_ROLE_RANK;
};

class WireReader {
 public:
  explicit WireReader(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~WireReader();
  WireReader(const WireReader&) = delete;
  WireReader& operator=(const WireReader&) = delete;

  // Reads these processes' rings, each from its oldest record on, where there is one; forgets those
  // of others.
  void follow(const std::vector<int>& pids);
  // Reads every ring of the folder, and keeps those whose files are gone.
  void follow_all();

  // Hands over what was written since the last call, ring by ring, in the order of writing.
  using Take = std::function<void(const WireOwner& owner, const lockstep_record& record)>;
  void read(const Take& take);

  bool any() const { return !rings_.empty(); }
  // overwritten before they were read, or damaged
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Ring {
    int file = -1;
    ino_t inode = 0;
    std::uint32_t slots = 0;
    std::uint64_t next = 0;     // the record to read next
    std::uint64_t counted = 0;  // what the last look counted
    int waits = 0;              // looks in which a counted record was not there yet
    WireOwner owner;
  };
  void open_ring(const std::string& name, int pid);
  void read_ring(Ring& ring, const Take& take);

  const std::filesystem::path folder_;
  std::map<std::string, Ring> rings_;  // by file name
  std::uint64_t dropped_ = 0;
};

}  // namespace lockstep
