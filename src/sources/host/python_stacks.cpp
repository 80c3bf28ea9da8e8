#include "sources/host/python_stacks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/clock.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostFrames = 40;
constexpr std::size_t kMostStacks = 512;
constexpr std::size_t kLargestStackDump = 1U << 20U;
constexpr std::size_t kLargestSource = 4U << 20U;
constexpr std::size_t kMostFiles = 64;
constexpr auto kDumpOften = 250ms;
constexpr auto kDumpSeldom = 5s;
constexpr auto kDumpPatience = 2s;  // of one dump

}  // namespace

namespace {

std::vector<CodeFrame> frames_of(const nlohmann::json& thread) {
  std::vector<CodeFrame> frames;
  for (const auto& entry : thread["frames"]) {
    if (frames.size() >= kMostFrames || !entry.is_object()) break;
    const auto word = [&](const char* key) {
      const auto found = entry.find(key);
      return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
    };
    const auto line = entry.find("line");
    frames.push_back({word("name"), word("filename"),
                      line != entry.end() && line->is_number_integer() ? line->get<int>() : 0});
  }
  return frames;
}

}  // namespace

std::optional<std::vector<CodeFrame>> parse_dump(std::string_view text, int pid) {
  const auto threads = nlohmann::json::parse(text, nullptr, false);
  if (!threads.is_array()) return std::nullopt;
  // In a container threads have other numbers than outside of it: then the name tells.
  const nlohmann::json* named = nullptr;
  for (const auto& thread : threads) {
    if (!thread.is_object() || !thread.contains("frames") || !thread["frames"].is_array() ||
        thread["frames"].empty())
      continue;
    const auto id = thread.find("os_thread_id");
    if (id != thread.end() && id->is_number_integer() && *id == pid) return frames_of(thread);
    const auto name = thread.find("thread_name");
    if (name != thread.end() && *name == "MainThread") named = &thread;
  }
  return named != nullptr ? std::optional(frames_of(*named)) : std::nullopt;
}

std::string_view telling_call(std::string_view line) {
  struct Call {
    std::string_view text;
    std::string_view name;
  };
  constexpr std::array<Call, 18> kCalls = {{{"gc.collect(", "gc.collect"},
                                            {"sleep(", "time.sleep"},
                                            {".item(", ".item"},
                                            {".tolist(", ".tolist"},
                                            {".cpu(", ".cpu"},
                                            {".numpy(", ".numpy"},
                                            {"synchronize(", "synchronize"},
                                            {".backward(", ".backward"},
                                            {"torch.save(", "torch.save"},
                                            {"save_file(", "save_file"},
                                            {"fsync(", "fsync"},
                                            {"print(", "print"},
                                            {"wandb.log(", "wandb.log"},
                                            {"logger.", "logger"},
                                            {"writer.add_", "writer.add"},
                                            {".to(", ".to"},
                                            {".cuda(", ".cuda"},
                                            {".step(", ".step"}}};
  line = trim(line);
  if (line.starts_with("#")) return {};
  for (const Call& call : kCalls)
    if (line.find(call.text) != std::string_view::npos) return call.name;
  return {};
}

std::optional<std::filesystem::path> find_py_spy(const std::vector<std::string>& own_interpreters) {
  const auto runs = [](const std::filesystem::path& path) {
    return ::access(path.c_str(), X_OK) == 0;
  };
  const char* const path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "", ':'))
    if (folder.starts_with("/"))
      if (const auto there = std::filesystem::path(folder) / "py-spy"; runs(there)) return there;
  for (const std::string& interpreter : own_interpreters)
    if (interpreter.starts_with("/"))
      if (const auto beside = std::filesystem::path(interpreter).parent_path() / "py-spy";
          runs(beside))
        return beside;
  return std::nullopt;
}

// What the thread and its owner share. Lives as long as either.
struct PythonStacks::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> pids;  // guarded by mutex, like the rest
  std::vector<Taken> taken;
  std::optional<std::string> refusal;
  bool any_taken = false;
  bool finish = false;
  bool ended = false;
};

// The thread's own side.
class PythonStacks::Work {
 public:
  Work(std::shared_ptr<Shared> shared, std::filesystem::path py_spy, double budget)
      : shared_(std::move(shared)), py_spy_(std::move(py_spy)), budget_(budget) {}

  void run() {
    std::size_t turn = 0;
    double pause_ns = static_cast<double>(kDumpOften.count()) * 1e6;
    std::minstd_rand chance;
    std::uniform_real_distribution<double> around(0.5, 1.5);  // no rhythm of a training is met
    while (true) {
      int pid = 0;
      {
        std::unique_lock lock(shared_->mutex);
        const auto pause =
            std::chrono::nanoseconds(static_cast<std::int64_t>(pause_ns * around(chance)));
        if (shared_->changed.wait_for(lock, pause, [&] { return shared_->finish; })) break;
        if (shared_->pids.empty()) continue;
        pid = shared_->pids[turn++ % shared_->pids.size()];
      }
      const double before = cpu_of_children();
      dump(pid);
      pause_ns = std::clamp((cpu_of_children() - before) / budget_,
                            static_cast<double>(std::chrono::nanoseconds(kDumpOften).count()),
                            static_cast<double>(std::chrono::nanoseconds(kDumpSeldom).count()));
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->ended = true;
    shared_->changed.notify_all();
  }

 private:
  static double cpu_of_children() {  // ns
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    const auto in_ns = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_usec) * 1e3;
    };
    return in_ns(used.ru_utime) + in_ns(used.ru_stime);
  }

  void dump(int pid) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    // Its words of refusal come through the same pipe.
    auto child =
        Subprocess::start({"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh", py_spy_.string(), "dump",
                           "--json", "--nonblocking", "--pid", std::to_string(pid)},
                          ChildOutput::to_file, ends[1]);
    ::close(ends[1]);
    std::string text;
    auto at = monotonic_now();
    if (child) {
      const auto until = at + kDumpPatience;
      while (text.size() < kLargestStackDump && monotonic_now() < until) {
        pollfd output{ends[0], POLLIN, 0};
        if (::poll(&output, 1, 100) <= 0) continue;
        std::array<char, 16384> block{};
        const ssize_t got = ::read(ends[0], block.data(), block.size());
        if (got <= 0) break;
        if (text.empty()) at = monotonic_now();  // it looked just before it wrote
        text.append(block.data(), static_cast<std::size_t>(got));
      }
      child->end(0ms);
    }
    ::close(ends[0]);
    keep(pid, at, text);
  }

  void keep(int pid, std::chrono::nanoseconds at, const std::string& text) {
    auto frames = parse_dump(text, pid);
    Taken taken{pid, at, {}};
    // Our own probe is no part of the program.
    if (frames)
      std::erase_if(*frames, [](const CodeFrame& frame) {
        return frame.file.find("/lockstep_probe/") != std::string::npos;
      });
    if (frames && frames->empty()) frames.reset();
    if (frames) {
      taken.sample.call = telling_call(line_of(pid, frames->front()));
      taken.sample.frames = std::move(*frames);
    }
    const std::lock_guard lock(shared_->mutex);
    if (frames)
      shared_->any_taken = true;
    else
      shared_->refusal = std::string(trim(text).substr(0, trim(text).find('\n')));
    // One that fails now and then is a moment of which nothing is known.
    if (shared_->any_taken && shared_->taken.size() < kMostStacks)
      shared_->taken.push_back(std::move(taken));
  }

  // Of the file as the process sees it; empty where it cannot be read. Names come from other
  // people's programs: no pipe, no device.
  std::string_view line_of(int pid, const CodeFrame& frame) {
    if (frame.file.empty() || frame.file.starts_with("<") || frame.line <= 0) return {};
    if (files_.size() >= kMostFiles) files_.clear();
    const auto [entry, is_new] = files_.try_emplace(std::to_string(pid) + frame.file);
    if (is_new) {
      const std::string source = source_of(pid, frame.file);
      for (const std::string_view line : split(source, '\n')) entry->second.emplace_back(line);
    }
    const auto line = static_cast<std::size_t>(frame.line);
    return line <= entry->second.size() ? std::string_view(entry->second[line - 1])
                                        : std::string_view();
  }

  static std::string source_of(int pid, const std::string& path) {
    const std::string process = "/proc/" + std::to_string(pid);
    const std::string seen =
        path.starts_with("/") ? process + "/root" + path : process + "/cwd/" + path;
    const int file = ::open(seen.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return {};
    struct stat facts{};
    std::string text;
    if (::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode)) {
      text.resize(std::min(static_cast<std::size_t>(facts.st_size), kLargestSource));
      const ssize_t got = ::read(file, text.data(), text.size());
      text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    ::close(file);
    return text;
  }

  const std::shared_ptr<Shared> shared_;
  const std::filesystem::path py_spy_;
  const double budget_;
  std::map<std::string, std::vector<std::string>> files_;
};

PythonStacks::PythonStacks(std::filesystem::path py_spy, double budget)
    : shared_(std::make_shared<Shared>()),
      thread_([work = std::make_shared<Work>(shared_, std::move(py_spy), budget)] {
        ::pthread_setname_np(::pthread_self(), "lockstep-stacks");
        work->run();
      }) {}

// A py-spy that hangs in the kernel, on a process whose driver hangs, is left behind.
PythonStacks::~PythonStacks() {
  std::unique_lock lock(shared_->mutex);
  shared_->finish = true;
  shared_->changed.notify_all();
  const bool ended =
      shared_->changed.wait_for(lock, kDumpPatience + 1s, [&] { return shared_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

void PythonStacks::follow(std::vector<int> pids) {
  const std::lock_guard lock(shared_->mutex);
  shared_->pids = std::move(pids);
}

std::vector<PythonStacks::Taken> PythonStacks::take() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->taken, {});
}

std::optional<std::string> PythonStacks::refusal() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->any_taken ? std::nullopt : shared_->refusal;
}

}  // namespace lockstep
