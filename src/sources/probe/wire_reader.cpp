#include "sources/probe/wire_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> kPrefixes = {"wire-", "host-", "cuda-", "nccl-"};
constexpr std::string_view kEnding = ".ring";

// A writer that many threads share claims a place before it fills it; one that was ended in between
// never fills it.
constexpr int kLooksAtMost = 3;

template <class T>
bool read_at(int file, std::uint64_t offset, T* into, std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  return ::pread(file, into, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

bool is_known(const lockstep_wire_header& header) {
  const bool power_of_two = header.slots > 0 && (header.slots & (header.slots - 1)) == 0;
  return header.magic == LOCKSTEP_WIRE_MAGIC && header.version == LOCKSTEP_WIRE_VERSION &&
         header.header_bytes == sizeof(lockstep_wire_header) &&
         header.record_bytes == sizeof(lockstep_record) && power_of_two &&
         header.slots <= LOCKSTEP_WIRE_MOST_SLOTS;
}

WireOwner owner_of(const lockstep_wire_header& header) {
  WireOwner owner;
  owner.pid = header.pid;
  owner.parent_pid = header.parent_pid;
  if (header.rank_plus_1 > 0) owner.rank = header.rank_plus_1 - 1;
  if (header.world_size > 0) owner.world_size = header.world_size;
  if (header.role < LOCKSTEP_ROLES) owner.role = static_cast<lockstep_role>(header.role);
  return owner;
}

bool is_shared_by_threads(lockstep_role role) {
  return role == LOCKSTEP_ROLE_HOST || role == LOCKSTEP_ROLE_NCCL;
}

}  // namespace

WireReader::~WireReader() {
  for (auto& [name, ring] : rings_) ::close(ring.file);
}

void WireReader::follow(const std::vector<int>& pids) {
  std::erase_if(rings_, [&](auto& entry) {
    if (std::ranges::find(pids, entry.second.owner.pid) != pids.end()) return false;
    ::close(entry.second.file);
    return true;
  });
  for (const int pid : pids)
    for (const std::string_view prefix : kPrefixes)
      open_ring(std::string(prefix) + std::to_string(pid) + std::string(kEnding), pid);
}

void WireReader::follow_all() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kEnding)) continue;
    for (const std::string_view prefix : kPrefixes)
      if (name.starts_with(prefix))
        if (const auto pid = parse_integer(std::string_view(name).substr(
                prefix.size(), name.size() - prefix.size() - kEnding.size()));
            pid && *pid > 0 && *pid < 0x7FFFFFFF)
          open_ring(name, static_cast<int>(*pid));
  }
}

void WireReader::open_ring(const std::string& name, int pid) {
  const std::string path = (folder_ / name).string();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  struct stat facts{};
  lockstep_wire_header header{};
  const bool good = ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) &&
                    read_at(file, 0, &header, 1) && is_known(header) && header.pid == pid &&
                    static_cast<std::uint64_t>(facts.st_size) >= lockstep_wire_bytes(header.slots);
  const auto known = rings_.find(name);
  if (!good || (known != rings_.end() && known->second.inode == facts.st_ino)) {
    ::close(file);
    return;
  }
  if (known != rings_.end()) ::close(known->second.file);  // the pid was given to another process
  // The oldest slot is the one that the writer may be about to use.
  const std::uint64_t oldest =
      header.written >= header.slots ? header.written - header.slots + 1 : 0;
  rings_[name] = {file, facts.st_ino, header.slots, oldest, oldest, 0, owner_of(header)};
}

void WireReader::read(const Take& take) {
  for (auto& [name, ring] : rings_) read_ring(ring, take);
}

void WireReader::read_ring(Ring& ring, const Take& take) {
  lockstep_wire_header header{};
  if (!read_at(ring.file, 0, &header, 1) || !is_known(header) || header.slots != ring.slots) return;
  ring.owner = owner_of(header);
  const std::uint64_t counted = std::exchange(ring.counted, header.written);
  const std::uint64_t until = (header.flags & LOCKSTEP_WIRE_UNORDERED) != 0
                                  ? std::min(counted, header.written)
                                  : header.written;
  if (until <= ring.next) return;
  if (header.written - ring.next > ring.slots) {
    const std::uint64_t first_left = std::min(header.written - ring.slots, until);
    dropped_ += first_left - ring.next;
    ring.next = first_left;
  }
  const std::uint64_t first = ring.next;
  std::vector<lockstep_record> records(until - first);
  for (std::uint64_t place = first; place < until;) {  // twice where the ring's end lies between
    const std::uint64_t slot = place % ring.slots;
    const std::uint64_t count = std::min(until - place, ring.slots - slot);
    if (!read_at(ring.file, sizeof(lockstep_wire_header) + slot * sizeof(lockstep_record),
                 &records[place - first], count))
      return;
    place += count;
  }
  // What the writer came round to meanwhile may be half old, half new.
  if (!read_at(ring.file, 0, &header, 1)) return;
  for (std::uint64_t place = first; place < until; ++place) {
    const lockstep_record& record = records[place - first];
    const bool overtaken = header.written >= place + ring.slots;
    if (!overtaken && record.sequence <= place && is_shared_by_threads(ring.owner.role) &&
        ++ring.waits < kLooksAtMost) {
      ring.next = place;  // claimed and not filled yet: at the next look
      return;
    }
    ring.waits = 0;
    if (!overtaken && record.sequence == place + 1)
      take(ring.owner, record);
    else
      ++dropped_;
  }
  ring.next = until;
}

}  // namespace lockstep
