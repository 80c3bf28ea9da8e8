#include "sources/probe/device_accountant.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/kernel_type.hpp"
#include "kernels/matmul_kinds.hpp"

namespace lockstep {
namespace {

// waiting for their step: 80 MB; before the first step there may be minutes of them
constexpr std::size_t kMostRows = 2'000'000;
constexpr std::size_t kMostKernels = 100'000;     // names
constexpr std::size_t kMostKeptRows = 2'000'000;  // for drawing
constexpr std::size_t kMostCollectives = 200'000;
constexpr std::size_t kMostWaits = 200'000;
// a longer one is a wait for something
constexpr std::uint64_t kLongestGapOfLaunchesNs = 1'000'000;
// an H200 takes 1 to 2 us from one queued kernel to the next
constexpr std::uint64_t kShortestGapOfLaunchesNs = 5'000;
constexpr std::uint32_t kPageable = 1;  // CUPTI's numbers of kinds of memory
constexpr std::uint32_t kPinned = 2;
constexpr std::uint32_t kOnDevice = 3;
// CUPTI's numbers of overheads of its own on the calling thread; others are flushes on
constexpr std::uint32_t kInstruments = 2U << 16U;
// its own thread, modules that load, or a queue that is full, which is the host ahead
constexpr std::uint32_t kTakesMemory = 3U << 16U;

double as_ms(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

bool launches(StepPart part) {
  return part == StepPart::forward || part == StepPart::backward || part == StepPart::optimizer;
}

using Stretch = std::pair<std::uint64_t, std::uint64_t>;

// In order, apart.
void add_stretch(std::vector<Stretch>& list, std::uint64_t begin, std::uint64_t end) {
  if (!list.empty() && begin <= list.back().second)
    list.back().second = std::max(list.back().second, end);
  else
    list.emplace_back(begin, end);
}

std::uint64_t total(const std::vector<Stretch>& list) {
  std::uint64_t sum = 0;
  for (const auto& [begin, end] : list) sum += end - begin;
  return sum;
}

// What of `list` lies outside `cover`.
std::uint64_t outside(const std::vector<Stretch>& list, const std::vector<Stretch>& cover) {
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (auto [begin, end] : list) {
    while (at < cover.size() && cover[at].second <= begin) ++at;
    for (std::size_t next = at; begin < end;) {
      if (next == cover.size() || cover[next].first >= end) {
        sum += end - begin;
        break;
      }
      if (cover[next].first > begin) sum += cover[next].first - begin;
      begin = std::max(begin, cover[next].second);
      ++next;
    }
  }
  return sum;
}

struct Lanes {
  std::vector<Stretch> computes;
  std::vector<Stretch> communicates;
  std::vector<Stretch> copies;
  std::vector<Stretch> any;
  std::int64_t kernels = 0;
};

// How the computing stretches of several GPUs lie to each other.
void add_turns(const std::map<int, Lanes>& lanes, StepOnDevices& time) {
  struct Change {
    std::uint64_t at;
    int device;
    bool begins;
  };
  std::vector<Change> changes;
  for (const auto& [device, lane] : lanes)
    for (const auto& [begin, end] : lane.computes) {
      changes.push_back({begin, device, true});
      changes.push_back({end, device, false});
    }
  std::ranges::sort(changes, [](const Change& a, const Change& b) { return a.at < b.at; });
  std::map<int, bool> works;
  int working = 0;
  int owner = -1;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    bool& own = works[changes[i].device];
    if (own != changes[i].begins) working += changes[i].begins ? 1 : -1;
    own = changes[i].begins;
    const std::uint64_t length = changes[i + 1].at - changes[i].at;
    if (length == 0 || working == 0) continue;
    time.any_ms += as_ms(length);
    if (working != 1) continue;
    time.exclusive_ms += as_ms(length);
    const auto now = std::ranges::find_if(works, [](const auto& one) { return one.second; })->first;
    if (owner >= 0 && owner != now) ++time.hand_overs;
    owner = now;
  }
}

std::vector<Stretch> holes_in(const std::vector<Stretch>& any, std::uint64_t begin,
                              std::uint64_t end) {
  std::vector<Stretch> holes;
  for (const auto& [from, to] : any) {
    if (from > begin) holes.emplace_back(begin, from);
    begin = std::max(begin, to);
  }
  if (begin < end) holes.emplace_back(begin, end);
  return holes;
}

void give_to_host(const std::vector<Stretch>& idle, const std::vector<HostStretch>& host,
                  StepOnDevices& time) {
  std::size_t at = 0;
  for (const auto& [begin, end] : idle) {
    while (at < host.size() && host[at].end_ns <= begin) ++at;
    double launching = 0;
    double given = 0;
    for (std::size_t next = at; next < host.size() && host[next].begin_ns < end; ++next) {
      const double length =
          as_ms(std::min(end, host[next].end_ns) - std::max(begin, host[next].begin_ns));
      time.idle_ms[index_of(host[next].part)] += length;
      given += length;
      if (launches(host[next].part)) launching += length;
    }
    time.idle_ms[index_of(StepPart::other)] += std::max(0.0, as_ms(end - begin) - given);
    if (end - begin > kLongestGapOfLaunchesNs || end - begin < kShortestGapOfLaunchesNs ||
        launching <= 0)
      continue;
    time.launch_gaps_ms += launching;
    ++time.launch_gaps;
  }
}

std::string copy_name(std::uint32_t subject) {
  const auto side = [](std::uint32_t kind) {
    return kind == kPageable   ? "Pageable"
           : kind == kPinned   ? "Pinned"
           : kind == kOnDevice ? "Device"
                               : "Memory";
  };
  return std::string("Memcpy (") + side(subject & 0xFF) + " -> " + side(subject >> 8 & 0xFF) + ")";
}

}  // namespace

const DeviceAccountant::Kernel* DeviceAccountant::kernel(std::uint32_t number) const {
  const auto found = kernels_.find(number);
  return found == kernels_.end() ? nullptr : &found->second;
}

std::shared_ptr<const std::string> DeviceAccountant::name_of(const Row& row) const {
  if (row.kind == LOCKSTEP_DEVICE_COPY)
    return std::make_shared<const std::string>(copy_name(row.subject));
  if (row.kind == LOCKSTEP_DEVICE_SET)
    return std::make_shared<const std::string>("Memset (Device)");
  const Kernel* const known = kernel(row.subject);
  return known != nullptr ? known->name : std::make_shared<const std::string>("kernel");
}

void DeviceAccountant::add(const lockstep_name& name) {
  if (kernels_.size() >= kMostKernels) return;
  auto text =
      std::make_shared<const std::string>(name.text, ::strnlen(name.text, sizeof name.text));
  const MatmulKind matmul = matmul_kind(*text);
  kernels_[name.number] = {text,
                           kernel_type(*text, TraceCategory::kernel) == KernelType::communication,
                           matmul == MatmulKind::plain, matmul == MatmulKind::tensor_cores};
}

void DeviceAccountant::add(const lockstep_device_row& row) {
  if (row.kind > LOCKSTEP_DEVICE_OVERHEAD || row.begin_ns == 0 ||
      row.begin_ns > UINT64_MAX - row.duration_ns) {
    ++damaged_;
    return;
  }
  if (row.kind == LOCKSTEP_DEVICE_WAIT) {
    if (!host_tells_waits_)
      keep({row.begin_ns, row.begin_ns + row.duration_ns, WaitOf::unknown_thread});
    return;
  }
  if (rows_.size() >= kMostRows) {  // the older half goes
    const auto middle = rows_.begin() + static_cast<std::ptrdiff_t>(rows_.size() / 2);
    std::ranges::sort(rows_, [](const Row& a, const Row& b) { return a.begin_ns < b.begin_ns; });
    lost_until_ns_ = middle->begin_ns;
    rows_.erase(rows_.begin(), middle);
    sorted_ = true;
  }
  Row made{row.begin_ns, row.begin_ns + row.duration_ns,
           row.subject,  row.bytes,
           row.stream,   row.device,
           row.kind,     Use::copies};
  if (row.kind == LOCKSTEP_DEVICE_KERNEL) {
    const Kernel* const known = kernel(row.subject);
    made.use = known != nullptr && known->is_collective ? Use::communicates : Use::computes;
    if (made.use == Use::communicates) {
      collectives_.push_back({made.begin_ns, made.end_ns, made.stream, known->name});
      if (collectives_.size() > kMostCollectives) collectives_.pop_front();
    }
  }
  if (row.kind <= LOCKSTEP_DEVICE_SET) newest_ns_ = std::max(newest_ns_, made.begin_ns);
  sorted_ = sorted_ && (rows_.empty() || rows_.back().begin_ns <= made.begin_ns);
  rows_.push_back(made);
}

void DeviceAccountant::add(const Wait& wait) {
  if (!host_tells_waits_) waits_.clear();
  host_tells_waits_ = true;
  keep(wait);
}

void DeviceAccountant::keep(const Wait& wait) {
  waits_.push_back(wait);
  if (waits_.size() > kMostWaits) waits_.pop_front();
}

void DeviceAccountant::forget_waits(std::uint64_t until_ns) {
  std::erase_if(waits_, [until_ns](const Wait& wait) { return wait.end_ns <= until_ns; });
}

bool DeviceAccountant::covers(std::uint64_t begin_ns, std::uint64_t end_ns) const {
  if (begin_ns < lost_until_ns_) return false;
  if (in_windows_)
    return std::ranges::any_of(windows_, [&](const Window& window) {
      return window.from_ns <= begin_ns && end_ns <= window.to_ns;
    });
  return ended_ ? newest_ns_ >= end_ns : newest_ns_ >= end_ns + kBehindNs;
}

void DeviceAccountant::end() {
  if (ended_) return;
  ended_ = true;
  if (in_windows_ && open_since_ns_) closed(newest_ns_);
  settle_last_window(UINT64_MAX);
}

void DeviceAccountant::attached(std::uint64_t at_ns) {
  constexpr std::size_t kMostStays = 64;
  if (!stays_.empty() && stays_.back().to_ns == UINT64_MAX) return;
  stays_.push_back({at_ns, UINT64_MAX});
  if (stays_.size() > kMostStays) stays_.pop_front();
}

void DeviceAccountant::left(std::uint64_t at_ns) {
  if (stays_.empty()) stays_.push_back({0, at_ns});
  stays_.back().to_ns = std::min(stays_.back().to_ns, at_ns);
}

bool DeviceAccountant::is_there(std::uint64_t begin_ns, std::uint64_t end_ns) const {
  return std::ranges::any_of(
      stays_, [&](const Window& stay) { return stay.from_ns < end_ns && begin_ns < stay.to_ns; });
}

void DeviceAccountant::opened(std::uint64_t at_ns) {
  if (!in_windows_) return;  // it is on from the start, as far as is known
  settle_last_window(at_ns);
  open_since_ns_ = at_ns;
  settled_until_ns_ = std::max(settled_until_ns_, at_ns);
}

void DeviceAccountant::closed(std::uint64_t at_ns) {
  constexpr std::size_t kMostWindows = 64;
  in_windows_ = true;
  if (!open_since_ns_) return;
  // What was launched before it opened ran on into it and was not told.
  Window window{*open_since_ns_ == 0 ? 0 : UINT64_MAX, at_ns};
  for (const Row& row : rows_)
    if (row.kind <= LOCKSTEP_DEVICE_SET && row.begin_ns >= *open_since_ns_)
      window.from_ns = std::min(window.from_ns, row.begin_ns);
  windows_.push_back(window);
  if (windows_.size() > kMostWindows) windows_.pop_front();
  open_since_ns_.reset();
  settled_until_ns_ = std::max(settled_until_ns_, at_ns);
}

void DeviceAccountant::rested(std::uint64_t until_ns) {
  if (!in_windows_ && newest_ns_ == 0) open_since_ns_.reset();  // it began with none
  in_windows_ = true;
  settle_last_window(until_ns);
  settled_until_ns_ = std::max(settled_until_ns_, until_ns);
}

void DeviceAccountant::settle_last_window(std::uint64_t before_ns) {
  if (windows_.empty()) return;
  Window& last = windows_.back();
  // What was launched within it ran on behind its end, and was told.
  for (const Row& row : rows_)
    if (row.kind <= LOCKSTEP_DEVICE_SET && row.begin_ns >= last.from_ns && row.begin_ns < before_ns)
      last.to_ns = std::max(last.to_ns, row.end_ns);
}

std::vector<CollectiveKernel> DeviceAccountant::take_collectives() {
  std::vector<CollectiveKernel> taken(collectives_.begin(), collectives_.end());
  collectives_.clear();
  std::ranges::sort(taken, [](const CollectiveKernel& a, const CollectiveKernel& b) {
    return a.begin_ns < b.begin_ns;
  });
  return taken;
}

std::vector<DeviceAccountant::Wait> DeviceAccountant::waits(std::uint64_t begin_ns,
                                                            std::uint64_t end_ns) const {
  std::vector<Wait> found;
  for (const Wait& wait : waits_)
    if (wait.begin_ns >= begin_ns && wait.end_ns <= end_ns) found.push_back(wait);
  std::ranges::sort(found, [](const Wait& a, const Wait& b) { return a.begin_ns < b.begin_ns; });
  return found;
}

DeviceAccountant::Account DeviceAccountant::take(std::uint64_t begin_ns, std::uint64_t end_ns,
                                                 const std::vector<HostStretch>& host) {
  if (!sorted_)
    std::ranges::sort(rows_, [](const Row& a, const Row& b) { return a.begin_ns < b.begin_ns; });
  sorted_ = true;
  Account account;
  StepOnDevices& time = account.time;
  std::map<int, Lanes> lanes;
  for (const Row& row : rows_) {
    if (row.begin_ns >= end_ns) break;
    const std::uint64_t from = std::max(row.begin_ns, begin_ns);
    const std::uint64_t to = std::min(row.end_ns, end_ns);
    if (from >= to) continue;
    const bool begins_here = row.begin_ns >= begin_ns;
    if (row.kind == LOCKSTEP_DEVICE_OVERHEAD) {
      if (row.subject == kInstruments || row.subject == kTakesMemory)
        time.overhead_ms += as_ms(to - from);
      continue;
    }
    Lanes& lane = lanes[row.device];
    add_stretch(lane.any, from, to);
    switch (row.use) {
      case Use::computes: add_stretch(lane.computes, from, to); break;
      case Use::communicates: add_stretch(lane.communicates, from, to); break;
      case Use::copies: add_stretch(lane.copies, from, to); break;
    }
    if (row.kind == LOCKSTEP_DEVICE_KERNEL) {
      lane.kernels += begins_here ? 1 : 0;
      if (const Kernel* const known = kernel(row.subject); known != nullptr) {
        if (known->plain_matmul) time.plain_matmul_ms += as_ms(to - from);
        if (known->tensor_cores) time.tensor_core_ms += as_ms(to - from);
      }
    }
    if (row.kind == LOCKSTEP_DEVICE_COPY && (row.subject & 0xFF) == kPageable &&
        (row.subject >> 8 & 0xFF) == kOnDevice) {
      time.pageable_ms += as_ms(to - from);
      if (begins_here) time.pageable_bytes += row.bytes;
    }
    if (work_ == Work::kept && begins_here && kept_ < kMostKeptRows) {
      ++kept_;
      time.work.push_back({as_ms(row.begin_ns - begin_ns), as_ms(row.end_ns - row.begin_ns),
                           row.device, row.stream, name_of(row)});
    }
  }
  std::erase_if(rows_, [&](const Row& row) { return row.end_ns <= end_ns; });
  for (const Wait& wait : waits_) {
    const std::uint64_t from = std::max(wait.begin_ns, begin_ns);
    const std::uint64_t to = std::min(wait.end_ns, end_ns);
    if (from >= to) continue;
    time.waits_ms += as_ms(to - from);
    if (wait.begin_ns >= begin_ns) ++time.waits;
  }

  const Lanes* busiest = nullptr;
  std::uint64_t most = 0;
  for (const auto& [device, lane] : lanes) {
    DeviceTime of;
    of.device = device;
    of.kernels = lane.kernels;
    of.computes_ms = as_ms(total(lane.computes));
    of.collective_ms = as_ms(total(lane.communicates));
    of.exposed_ms = as_ms(outside(lane.communicates, lane.computes));
    const std::uint64_t busy = total(lane.any);
    of.copies_ms = std::max(0.0, as_ms(busy) - of.computes_ms - of.exposed_ms);
    of.idle_ms = as_ms(end_ns - begin_ns - busy);
    time.devices.push_back(of);
    if (busiest == nullptr || busy > most) {
      busiest = &lane;
      most = busy;
    }
  }
  add_turns(lanes, time);
  account.idle = busiest != nullptr ? holes_in(busiest->any, begin_ns, end_ns)
                                    : std::vector<Stretch>{{begin_ns, end_ns}};
  give_to_host(account.idle, host, time);
  return account;
}

}  // namespace lockstep
