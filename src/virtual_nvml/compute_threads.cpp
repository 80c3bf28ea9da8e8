#include "virtual_nvml/compute_threads.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/file.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr Nanoseconds kScanEvery = std::chrono::seconds(1);
// A trainer says "waiting" around collectives of milliseconds; power samples are 20 ms apart.
constexpr Nanoseconds kRereadEvery = std::chrono::milliseconds(4);
constexpr std::string_view kThreadName = "vgpu";

// The number behind a prefix: "vgpu3" -> 3.
std::optional<std::size_t> number_after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const auto number = parse_unsigned(text.substr(prefix.size()));
  if (!number || *number > 4095) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

}  // namespace

std::optional<Registration> parse_registration(const std::string& json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("pid") || !parsed["pid"].is_number_integer())
    return std::nullopt;
  Registration registration;
  registration.pid = parsed["pid"].get<int>();
  const auto gpus = parsed.find("gpus");
  if (gpus == parsed.end() || !gpus->is_array()) return std::nullopt;
  for (const auto& entry : *gpus) {
    if (!entry.is_object() || !entry.contains("index") || !entry["index"].is_number_unsigned())
      continue;
    Registration::Gpu gpu;
    gpu.index = entry["index"].get<int>();
    if (entry.contains("memory_bytes") && entry["memory_bytes"].is_number_unsigned())
      gpu.memory_bytes = entry["memory_bytes"].get<std::uint64_t>();
    if (entry.contains("tid") && entry["tid"].is_number_unsigned())
      gpu.tid = entry["tid"].get<int>();
    gpu.waiting =
        entry.contains("waiting") && entry["waiting"].is_boolean() && entry["waiting"].get<bool>();
    if (entry.contains("hot_clock") && entry["hot_clock"].is_number())
      gpu.hot_clock = std::clamp(entry["hot_clock"].get<double>(), 0.01, 1.0);
    registration.gpus.push_back(gpu);
  }
  return registration;
}

ComputeThreads::ComputeThreads(std::size_t gpu_count, std::filesystem::path proc_root,
                               std::filesystem::path registrations,
                               std::optional<std::string> scope)
    : proc_(std::move(proc_root)),
      registration_folder_(std::move(registrations)),
      scope_(std::move(scope)),
      total_(gpu_count) {}

ComputeThreads::~ComputeThreads() {
  for (auto& [tid, thread] : threads_)
    if (thread.schedstat >= 0) ::close(thread.schedstat);
}

void ComputeThreads::refresh(Nanoseconds now) {
  if (last_scan_ && now - *last_scan_ < kScanEvery) {
    if (now - last_reread_ < kRereadEvery) return;
    last_reread_ = now;
    reread_registrations();
    return;
  }
  last_scan_ = last_reread_ = now;
  scan_registrations();
  scan_threads();
}

bool ComputeThreads::in_scope(int pid) {
  const auto known = scope_of_.find(pid);
  if (known != scope_of_.end()) return known->second;
  std::optional<std::string> scope;
  const std::string environment =
      read_small_file(proc_ / std::to_string(pid) / "environ", 4U << 20U).value_or("");
  constexpr std::string_view kName = "LOCKSTEP_VIRTUAL_SCOPE=";
  for (const std::string_view entry : split(environment, '\0'))
    if (entry.starts_with(kName)) scope = std::string(entry.substr(kName.size()));
  return scope_of_[pid] = scope == scope_;
}

namespace {

Nanoseconds clock_now(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + Nanoseconds(now.tv_nsec);
}

// Since the machine started, of a process or thread by its stat.
std::optional<Nanoseconds> start_of(const std::string& stat) {
  constexpr std::size_t kStartTime = 19;
  const auto fields = stat_fields_after_name(stat);
  const auto ticks = fields.size() > kStartTime ? parse_unsigned(fields[kStartTime]) : std::nullopt;
  if (!ticks) return std::nullopt;
  return Nanoseconds(static_cast<std::int64_t>(static_cast<double>(*ticks) /
                                               static_cast<double>(::sysconf(_SC_CLK_TCK)) * 1e9));
}

}  // namespace

// A process that was killed leaves its registration behind; its number may be another's by now.
bool ComputeThreads::is_somebody_elses(int pid, const std::filesystem::path& registration) const {
  constexpr Nanoseconds kClocksDiffer = std::chrono::seconds(2);
  struct stat facts{};
  const auto started =
      start_of(read_small_file(proc_ / std::to_string(pid) / "stat", 1024).value_or(""));
  if (!started || ::stat(registration.c_str(), &facts) != 0) return false;
  const Nanoseconds written =
      std::chrono::seconds(facts.st_mtim.tv_sec) + Nanoseconds(facts.st_mtim.tv_nsec);
  const Nanoseconds machine_started = clock_now(CLOCK_REALTIME) - clock_now(CLOCK_BOOTTIME);
  return written + kClocksDiffer < machine_started + *started;
}

void ComputeThreads::scan_registrations() {
  std::map<int, KnownRegistration> found;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(registration_folder_, missing)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("vgpu-") || !name.ends_with(".json")) continue;
    const auto number = parse_integer(std::string_view(name).substr(5, name.size() - 10));
    if (!number || *number <= 0 || *number > 0x7FFFFFFF) continue;
    const int owner = static_cast<int>(*number);
    if (!std::filesystem::exists(proc_ / std::to_string(owner), missing) || !in_scope(owner))
      continue;
    const auto known = registrations_.find(owner);
    if (known == registrations_.end() && is_somebody_elses(owner, entry.path())) continue;
    found[owner] = known != registrations_.end() ? known->second : KnownRegistration{};
  }
  registrations_ = std::move(found);
  reread_registrations();
}

// A registration is replaced by rename, so a new inode or time stamp is a new content.
void ComputeThreads::reread_registrations() {
  for (auto& [pid, known] : registrations_) {
    const auto path = registration_folder_ / ("vgpu-" + std::to_string(pid) + ".json");
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) {
      known.content.gpus.clear();
      continue;
    }
    const std::int64_t changed = facts.st_mtim.tv_sec * 1'000'000'000LL + facts.st_mtim.tv_nsec;
    if (facts.st_ino == known.inode && changed == known.changed_ns) continue;
    auto content = parse_registration(read_small_file(path).value_or(""));
    // not written by rename, or not its owner's: keep the last
    if (!content || content->pid != pid) continue;
    known = {std::move(*content), facts.st_ino, changed};
    for (const Registration::Gpu& gpu : known.content.gpus)
      if (gpu.tid && gpu.index >= 0 && static_cast<std::size_t>(gpu.index) < total_.size())
        track(pid, *gpu.tid, static_cast<std::size_t>(gpu.index), true);
  }
}

void ComputeThreads::scan_threads() {
  std::map<int, bool> still_kernel;
  std::map<int, bool> still_scoped;
  std::set<int> alive;
  for_each_number_in(proc_, [&](int pid) {
    const auto folder = proc_ / std::to_string(pid);
    if (const auto known = is_kernel_.find(pid); known != is_kernel_.end() && known->second) {
      still_kernel[pid] = true;
      return;
    }
    if (!is_kernel_.contains(pid))
      is_kernel_[pid] = read_small_file(folder / "cmdline", 1).value_or("").empty();
    still_kernel[pid] = is_kernel_[pid];
    if (is_kernel_[pid]) return;
    for_each_number_in(folder / "task", [&](int tid) {
      if (const auto known = threads_.find(tid);
          known != threads_.end() && known->second.registered) {
        alive.insert(tid);
        return;
      }
      const auto gpu = gpu_named_by(pid, tid);
      if (!gpu || *gpu >= total_.size() || !in_scope(pid)) return;
      alive.insert(tid);
      track(pid, tid, *gpu, false);
    });
    if (const auto known = scope_of_.find(pid); known != scope_of_.end())
      still_scoped.insert(*known);
  });
  is_kernel_ = std::move(still_kernel);
  scope_of_ = std::move(still_scoped);  // a pid that ended may come back as another process
  std::erase_if(threads_, [&](auto& entry) {
    if (alive.contains(entry.first)) return false;
    if (entry.second.schedstat >= 0) ::close(entry.second.schedstat);
    return true;
  });
}

// The GPU that a thread's name speaks of. Every thread of the machine is asked once a second, so
// without the allocations of paths and strings.
std::optional<std::size_t> ComputeThreads::gpu_named_by(int pid, int tid) const {
  std::array<char, 4096> path;
  std::snprintf(path.data(), path.size(), "%s/%d/task/%d/comm", proc_.c_str(), pid, tid);
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 32> name;
  const ssize_t got = ::read(file, name.data(), name.size());
  ::close(file);
  if (got <= 0) return std::nullopt;
  return number_after(trim({name.data(), static_cast<std::size_t>(got)}), kThreadName);
}

void ComputeThreads::track(int pid, int tid, std::size_t gpu, bool registered) {
  if (const auto known = threads_.find(tid); known != threads_.end()) {
    known->second.gpu = gpu;
    known->second.registered = known->second.registered || registered;
    return;
  }
  Thread thread;
  thread.pid = pid;
  thread.gpu = gpu;
  thread.registered = registered;
  const auto path = proc_ / std::to_string(pid) / "task" / std::to_string(tid) / "schedstat";
  thread.schedstat = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  thread.last_run_time = schedstat(thread).value_or(SchedStat{}).run_time;
  threads_[tid] = thread;
}

// "run time, time spent waiting for a CPU, times put on a CPU".
std::optional<ComputeThreads::SchedStat> ComputeThreads::schedstat(const Thread& thread) {
  std::array<char, 96> text;
  const ssize_t got = ::pread(thread.schedstat, text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  const auto fields = split(trim({text.data(), static_cast<std::size_t>(got)}), ' ');
  const auto run_ns = parse_unsigned(fields[0]);
  const auto slices = fields.size() > 2 ? parse_unsigned(fields[2]) : std::nullopt;
  if (!run_ns || !slices) return std::nullopt;
  return SchedStat{Nanoseconds(static_cast<std::int64_t>(*run_ns)), *slices};
}

bool ComputeThreads::in_use(std::size_t gpu) const {
  return !registrations_.empty() ||
         std::ranges::any_of(threads_, [&](const auto& entry) { return entry.second.gpu == gpu; });
}

GpuWork ComputeThreads::work(std::size_t gpu) {
  GpuWork work;
  for (auto& [tid, thread] : threads_) {
    if (thread.gpu != gpu) continue;
    const auto now = schedstat(thread);
    if (!now) continue;
    total_[gpu] += std::max(now->run_time - thread.last_run_time, Nanoseconds{});
    thread.last_run_time = now->run_time;
    work.slices += now->slices;
  }
  work.run_time = total_[gpu];
  for (const auto& [pid, known] : registrations_)
    for (const Registration::Gpu& entry : known.content.gpus)
      if (static_cast<std::size_t>(entry.index) == gpu) {
        work.waiting = work.waiting || entry.waiting;
        if (entry.hot_clock) work.hot_clock = entry.hot_clock;
      }
  return work;
}

std::string ComputeThreads::thread_stat(int pid, int tid) const {
  return read_small_file(proc_ / std::to_string(pid) / "task" / std::to_string(tid) / "stat", 1024)
      .value_or("");
}

Nanoseconds ComputeThreads::past_run_time(std::size_t gpu, Nanoseconds window) const {
  const Nanoseconds now = clock_now(CLOCK_BOOTTIME);
  double sum_ns = 0;
  for (const auto& [tid, thread] : threads_) {
    if (thread.gpu != gpu) continue;
    const auto started = start_of(thread_stat(thread.pid, tid));
    const auto ran = schedstat(thread);
    if (!started || !ran) continue;
    const Nanoseconds lived = std::max<Nanoseconds>(now - *started, std::chrono::milliseconds(10));
    const double share = std::min(
        1.0, static_cast<double>(ran->run_time.count()) / static_cast<double>(lived.count()));
    sum_ns += share * static_cast<double>(std::min(lived, window).count());
  }
  return std::min(window, Nanoseconds(static_cast<std::int64_t>(sum_ns)));
}

std::vector<std::pair<int, std::uint64_t>> ComputeThreads::processes(std::size_t gpu) {
  std::map<int, std::optional<std::uint64_t>> by_pid;
  for (const auto& [tid, thread] : threads_)
    if (thread.gpu == gpu) by_pid[thread.pid];
  for (const auto& [pid, known] : registrations_)
    for (const Registration::Gpu& entry : known.content.gpus)
      if (static_cast<std::size_t>(entry.index) == gpu) by_pid[pid] = entry.memory_bytes;

  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<std::pair<int, std::uint64_t>> result;
  for (const auto& [pid, registered] : by_pid) {
    const auto statm = read_small_file(proc_ / std::to_string(pid) / "statm", 128);
    if (!statm) continue;  // ended since the last scan
    const auto fields = split(trim(*statm), ' ');
    const auto resident_pages = fields.size() > 1 ? parse_unsigned(fields[1]) : std::nullopt;
    result.emplace_back(pid, registered.value_or(resident_pages.value_or(0) * page));
  }
  return result;
}

}  // namespace lockstep
