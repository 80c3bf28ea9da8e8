#include "sources/host/python_stacks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
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
constexpr std::size_t kMostStacks = 2048;
constexpr std::size_t kLargestWindow = 4U << 20U;  // of text
constexpr std::size_t kLargestSource = 4U << 20U;
constexpr std::size_t kMostFiles = 64;
// Attaching costs 20 to 130 ms of a core, a sample 0.7: a window of many is worth its start, and a
// dear start a longer one. Longer still would keep what a report needs from it.
constexpr auto kShortestWindow = 1s;
constexpr auto kLongestWindow = 3s;
constexpr double kOfEachRound = 0.67;  // sampled, where the budget allows it
constexpr int kSamplesASecond = 23;    // no rhythm that a training is likely to have
constexpr auto kPauseAtLeast = 50ms;
constexpr auto kPauseAtMost = 60s;
constexpr auto kWindowPatience = 2s;  // beyond its length
// A recording of hours needs no more than a window now and then.
constexpr auto kCloseFor = 60s;
constexpr double kLaterOfBudget = 0.25;
// Of a window's samples: a moment that could not be read shows the stack before it.
constexpr double kErrorsAtMost = 0.25;

// Python's own way from a module to its forward(): twice as many frames that say nothing.
bool is_noise(std::string_view function) {
  return function.ends_with("_call_impl") || function.ends_with("_wrapped_call_impl");
}

// One of py-spy's events: a frame begins or ends.
struct FrameEvent {
  bool begins = false;
  double t_us = 0;
  std::uint64_t thread = 0;
  CodeFrame frame;
};

std::optional<FrameEvent> event_of(const nlohmann::json& entry) {
  if (!entry.is_object()) return std::nullopt;
  const auto phase = entry.find("ph");
  const auto time = entry.find("ts");
  const auto thread = entry.find("tid");
  const auto name = entry.find("name");
  const auto facts = entry.find("args");
  const auto end = entry.end();
  if (phase == end || time == end || thread == end || name == end || facts == end ||
      !phase->is_string() || !time->is_number() || !thread->is_number_unsigned() ||
      !name->is_string() || !facts->is_object())
    return std::nullopt;
  const auto file = facts->find("filename");
  const auto line = facts->find("line");
  return FrameEvent{*phase == "B",
                    time->get<double>(),
                    thread->get<std::uint64_t>(),
                    {name->get<std::string>(),
                     file != facts->end() && file->is_string() ? file->get<std::string>() : "",
                     line != facts->end() && line->is_number_integer() ? line->get<int>() : 0}};
}

// The thread whose outermost frame is "thread (PID)": in a container threads have other numbers
// than outside of it, then the name tells.
std::optional<std::uint64_t> main_thread(const std::vector<FrameEvent>& events, int pid) {
  const std::string by_number = "thread (" + std::to_string(pid) + ")";
  std::optional<std::uint64_t> named;
  for (const FrameEvent& event : events) {
    if (event.frame.function.starts_with(by_number)) return event.thread;
    if (event.frame.function.starts_with("thread (") &&
        event.frame.function.ends_with(": MainThread"))
      named = event.thread;
  }
  return named;
}

// Innermost first, without the thread's own line.
std::vector<CodeFrame> frames_of(const std::vector<CodeFrame>& stack) {
  std::vector<CodeFrame> frames;
  for (auto frame = stack.rbegin(); frame != stack.rend() && frames.size() < kMostFrames; ++frame)
    if (!frame->function.starts_with("thread (") && !is_noise(frame->function))
      frames.push_back(*frame);
  return frames;
}

}  // namespace

std::optional<std::vector<StackAt>> parse_window(std::string_view text, int pid,
                                                 double samples_a_second) {
  const std::size_t begin = text.find("[{");
  if (begin == std::string_view::npos) return std::nullopt;
  const auto entries =
      nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin), nullptr, false);
  if (!entries.is_array()) return std::nullopt;
  std::vector<FrameEvent> events;
  for (const auto& entry : entries)
    if (auto event = event_of(entry)) events.push_back(std::move(*event));
  const auto thread = main_thread(events, pid);
  if (!thread) return std::nullopt;
  // py-spy samples at moments by chance, and tells of one only where the stack has changed: of
  // those between, their number is known from the time, not their moments.
  std::vector<StackAt> found;
  std::vector<CodeFrame> stack;
  std::optional<double> since;
  for (const FrameEvent& event : events) {
    if (event.thread != *thread) continue;
    if (since && event.t_us > *since)
      if (auto frames = frames_of(stack); !frames.empty() && found.size() < kMostStacks)
        found.push_back({*since / 1e3, std::move(frames),
                         std::max(1, static_cast<int>(std::lround((event.t_us - *since) / 1e6 *
                                                                  samples_a_second)))});
    since = event.t_us;
    if (event.begins)
      stack.push_back(event.frame);
    else if (!stack.empty())
      stack.pop_back();
  }
  if (found.empty()) return std::nullopt;
  return found;
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
    std::chrono::nanoseconds pause = kPauseAtLeast;
    std::chrono::seconds window = kShortestWindow;
    std::minstd_rand chance;
    std::uniform_real_distribution<double> around(0.5, 1.5);  // no rhythm of a training is met
    const auto began = monotonic_now();
    while (true) {
      int pid = 0;
      {
        std::unique_lock lock(shared_->mutex);
        const auto wait = std::chrono::nanoseconds(
            static_cast<std::int64_t>(static_cast<double>(pause.count()) * around(chance)));
        if (shared_->changed.wait_for(lock, wait, [&] { return shared_->finish; })) break;
        if (shared_->pids.empty()) continue;
        pid = shared_->pids[turn++ % shared_->pids.size()];
      }
      const auto cpu_before = cpu_of_children();
      const auto before = monotonic_now();
      watch(pid, window);
      const auto now = monotonic_now();
      const double budget = now - began < kCloseFor ? budget_ : kLaterOfBudget * budget_;
      const auto due = std::chrono::nanoseconds(static_cast<std::int64_t>(
          static_cast<double>((cpu_of_children() - cpu_before).count()) / budget));
      window =
          std::clamp(std::chrono::round<std::chrono::seconds>(kOfEachRound *
                                                              std::chrono::duration<double>(due)),
                     std::chrono::seconds(kShortestWindow), std::chrono::seconds(kLongestWindow));
      pause =
          std::clamp<std::chrono::nanoseconds>(due - (now - before), kPauseAtLeast, kPauseAtMost);
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->ended = true;
    shared_->changed.notify_all();
  }

 private:
  static std::chrono::nanoseconds cpu_of_children() {
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    const auto whole = [](const timeval& time) {
      return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    };
    return whole(used.ru_utime) + whole(used.ru_stime);
  }

  bool is_to_finish() {
    const std::lock_guard lock(shared_->mutex);
    return shared_->finish;
  }

  void watch(int pid, std::chrono::seconds window) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    // Its words, also of refusal, come through the same pipe.
    const auto began = monotonic_now();
    auto child = Subprocess::start(
        {"/bin/sh", "-c", "exec 3>&1; exec \"$@\" 2>&1", "sh", py_spy_.string(), "record",
         "--nonblocking", "--idle", "--threads", "--rate", std::to_string(kSamplesASecond),
         "--duration", std::to_string(window.count()), "--format", "chrometrace", "--output",
         "/dev/fd/3", "--pid", std::to_string(pid)},
        ChildOutput::to_file, ends[1]);
    ::close(ends[1]);
    std::string text;
    bool whole = false;
    if (child) {
      const auto until = began + window + kWindowPatience;
      while (text.size() < kLargestWindow && monotonic_now() < until && !is_to_finish()) {
        pollfd output{ends[0], POLLIN, 0};
        if (::poll(&output, 1, 50) <= 0) continue;
        std::array<char, 16384> block{};
        const ssize_t got = ::read(ends[0], block.data(), block.size());
        whole = got == 0;
        if (got <= 0) break;
        text.append(block.data(), static_cast<std::size_t>(got));
      }
      child->end(0ms);
    }
    ::close(ends[0]);
    if (whole) keep(pid, began, text);
  }

  // Its clock begins when it starts.
  void keep(int pid, std::chrono::nanoseconds began, const std::string& text) {
    auto stacks = parse_window(text, pid, kSamplesASecond);
    std::vector<Taken> taken;
    if (stacks && errors_of(text) <= kErrorsAtMost * samples_in(*stacks))
      for (StackAt& stack : *stacks) {
        // Our own probe is no part of the program.
        std::erase_if(stack.frames, [](const CodeFrame& frame) {
          return frame.file.find("/lockstep_probe/") != std::string::npos;
        });
        if (stack.frames.empty()) continue;
        Taken one{
            pid, began + std::chrono::nanoseconds(static_cast<std::int64_t>(stack.t_ms * 1e6)), {}};
        one.sample.call = telling_call(line_of(pid, stack.frames.front()));
        one.sample.frames = std::move(stack.frames);
        one.sample.seen = stack.seen;
        taken.push_back(std::move(one));
      }
    const std::lock_guard lock(shared_->mutex);
    if (taken.empty() && !shared_->any_taken) shared_->refusal = refusal_in(text);
    shared_->any_taken = shared_->any_taken || !taken.empty();
    for (Taken& one : taken)
      if (shared_->taken.size() < kMostStacks) shared_->taken.push_back(std::move(one));
  }

  static double samples_in(const std::vector<StackAt>& stacks) {
    double samples = 0;
    for (const StackAt& stack : stacks) samples += stack.seen;
    return samples;
  }

  // "... Samples: 522 Errors: 1"
  static double errors_of(std::string_view text) {
    constexpr std::string_view kWord = "Errors: ";
    const std::size_t at = text.rfind(kWord);
    return at == std::string_view::npos
               ? 0
               : static_cast<double>(
                     parse_integer(split(text.substr(at + kWord.size()), '\n').front())
                         .value_or(0));
  }

  static std::string refusal_in(std::string_view text) {
    for (const std::string_view line : split(text, '\n'))
      if (lower_case(line).starts_with("error")) return std::string(trim(line));
    return "it told nothing";
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
      shared_->changed.wait_for(lock, kWindowPatience, [&] { return shared_->ended; });
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
