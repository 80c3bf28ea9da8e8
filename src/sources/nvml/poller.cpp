#include "sources/nvml/poller.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "sources/nvml/gpu_reader.hpp"
#include "sources/nvml/nvml_session.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// over ten minutes at 10 Hz: a reader that slow has given up
constexpr std::size_t kMostQueued = 8192;
constexpr auto kSilentAfter = 1s;      // a call this long is worth a word
constexpr auto kFindAgainEvery = 5s;   // a lost GPU is looked for
constexpr auto kStartAgainEvery = 1s;  // a driver that is being reloaded
constexpr auto kReplanEvery = 1s;
constexpr auto kStopWait = 200ms;  // then a stuck thread is left behind

std::atomic<bool> left_behind = false;

}  // namespace

// What the poller's thread and its owner share. Lives as long as either.
struct Poller::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Record> records;  // guarded by mutex, like all down to the atomics
  std::optional<Result<Machine>> started;
  std::vector<NotMeasured> not_measured;
  SamplingCost cost;
  std::optional<std::chrono::nanoseconds> new_interval;
  bool finish = false;
  bool ended = false;

  std::atomic<const char*> call = nullptr;  // the call under way, for the words about silence
  std::atomic<std::int64_t> call_since_ns = 0;
};

// The thread's own side: everything here is touched by that thread alone.
class Poller::Work {
 public:
  Work(PollerOptions options, std::shared_ptr<Shared> shared)
      : options_(std::move(options)), shared_(std::move(shared)) {}

  void run() {
    std::unique_ptr<NvmlSession> session;
    std::optional<Result<Machine>> started;
    visibly("nvmlInit", [&] {
      auto opened = NvmlSession::open(options_.session);
      if (opened) session = std::move(*opened);
      started = session ? Result<Machine>(session->machine())
                        : Result<Machine>(std::move(opened).error());
    });
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->started = std::move(started);
    }
    shared_->changed.notify_all();
    while (session && poll(*session) == PollEnd::driver_restarted)
      session = start_again(std::move(session));
    session.reset();
    const std::lock_guard lock(shared_->mutex);
    shared_->ended = true;
    shared_->changed.notify_all();
  }

 private:
  enum class PollEnd : std::uint8_t { finished, driver_restarted };
  PollEnd poll(NvmlSession& session);
  std::unique_ptr<NvmlSession> start_again(std::unique_ptr<NvmlSession> ended);
  void tick(const std::vector<CallKind>& kinds);
  void read_gpus(const std::vector<CallKind>& kinds, double t_ms);
  void read_processes(double t_ms);
  void read_events(double t_ms);
  void publish_state();
  void push(Record record);

  // Calls the driver in a way that others can see, should it not come back.
  template <class Calls>
  void visibly(const char* name, Calls calls) {
    shared_->call_since_ns = monotonic_now().count();
    shared_->call = name;
    calls();
    shared_->call = nullptr;
  }

  // Makes the same kind of call on `gpus` GPUs and notes what one of them took.
  template <class Calls>
  void timed(CallKind kind, std::size_t gpus, Calls calls) {
    const auto begin = monotonic_now();
    visibly(kCallKindNames[static_cast<std::size_t>(kind)].data(), calls);
    schedule_->measured(kind, (monotonic_now() - begin) /
                                  static_cast<std::int64_t>(std::max<std::size_t>(gpus, 1)));
  }

  double now_ms() const { return to_ms(monotonic_now() - session_->started()); }
  const std::vector<std::unique_ptr<GpuReader>>& readers() const { return session_->readers(); }

  const PollerOptions options_;
  const std::shared_ptr<Shared> shared_;
  NvmlSession* session_ = nullptr;
  std::set<const GpuReader*> known_lost_;
  std::optional<CallSchedule> schedule_;
  std::chrono::nanoseconds interval_ = options_.schedule.interval;  // as it was last asked for
  std::chrono::nanoseconds last_start_ = monotonic_now();
  std::chrono::nanoseconds last_search_{};
  std::chrono::nanoseconds last_replan_{};
};

Poller::Work::PollEnd Poller::Work::poll(NvmlSession& session) {
  session_ = &session;
  ScheduleOptions schedule = options_.schedule;
  schedule.interval = interval_;
  schedule_.emplace(schedule, readers().size(), monotonic_now());
  while (true) {
    tick(schedule_->take_due(monotonic_now()));
    if (std::ranges::any_of(readers(), [](const auto& reader) { return reader->session_ended(); }))
      return PollEnd::driver_restarted;
    const auto wake = std::chrono::steady_clock::time_point(schedule_->next_wake());
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_until(lock, wake,
                                [&] { return shared_->finish || shared_->new_interval; });
    if (shared_->finish) break;
    if (const auto interval = std::exchange(shared_->new_interval, std::nullopt)) {
      interval_ = *interval;
      schedule_->set_interval(interval_, monotonic_now());
    }
  }
  // The power samples since the last read, and one more reading of all the rest.
  std::vector<CallKind> all;
  for (std::size_t i = 0; i < kCallKinds; ++i) all.push_back(static_cast<CallKind>(i));
  tick(all);
  return PollEnd::finished;
}

// The driver was unloaded or restarted under us: all handles are void. It is tried again until it
// answers; time goes on.
std::unique_ptr<NvmlSession> Poller::Work::start_again(std::unique_ptr<NvmlSession> ended) {
  push({now_ms(), Event{"driver_gone", std::nullopt,
                        "NVML forgot its start: the driver was unloaded or restarted"}});
  SessionOptions options = options_.session;
  options.clock = ended->clock();
  const auto started = ended->started();
  std::set<int> were_lost;
  for (const GpuReader* const reader : known_lost_) were_lost.insert(reader->info().index);
  known_lost_.clear();
  visibly("nvmlShutdown", [&] { ended.reset(); });
  session_ = nullptr;
  // One that forgets its start again and again is not asked as fast as it forgets.
  const auto pause = monotonic_now() - last_start_ < kStartAgainEvery ? kStartAgainEvery : 0s;
  for (auto wait = pause;; wait = kStartAgainEvery) {
    {
      std::unique_lock lock(shared_->mutex);
      if (shared_->changed.wait_for(lock, wait, [&] { return shared_->finish; })) return nullptr;
    }
    last_start_ = monotonic_now();
    std::unique_ptr<NvmlSession> session;
    visibly("nvmlInit", [&] {
      if (auto opened = NvmlSession::open(options)) session = std::move(*opened);
    });
    if (!session) continue;
    const double t_ms = to_ms(monotonic_now() - started);
    push({t_ms, Event{"driver_back", std::nullopt, "NVML was started again"}});
    // one that is still lost says so with its first reading
    for (const auto& reader : session->readers())
      if (were_lost.contains(reader->info().index))
        push({t_ms, Event{"recovered", reader->info().index, "the driver was started again"}});
    return session;
  }
}

void Poller::Work::tick(const std::vector<CallKind>& kinds) {
  const double t_ms = now_ms();
  std::vector<CallKind> of_gpus;
  bool processes = false;
  bool events = false;
  for (const CallKind kind : kinds) {
    if (kind == CallKind::processes)
      processes = true;
    else if (kind == CallKind::events)
      events = true;
    else
      of_gpus.push_back(kind);
  }
  if (!of_gpus.empty()) read_gpus(of_gpus, t_ms);
  if (processes) read_processes(t_ms);
  if (events) read_events(t_ms);

  if (monotonic_now() - last_replan_ >= kReplanEvery) {
    last_replan_ = monotonic_now();
    for (const auto& reader : readers())  // read it well before it wraps
      if (const auto length = reader->power_buffer_length())
        schedule_->limit_period(CallKind::power_samples,
                                std::min<std::chrono::nanoseconds>(*length * 8 / 10, 2s));
    schedule_->replan();
    publish_state();
  }
}

void Poller::Work::read_gpus(const std::vector<CallKind>& kinds, double t_ms) {
  GpuTick gpus(readers().size());
  std::vector<Record> extra;
  const bool search = monotonic_now() - last_search_ >= kFindAgainEvery;
  if (search) last_search_ = monotonic_now();
  visibly("GPUs that sleep or are lost", [&] {
    for (std::size_t i = 0; i < readers().size(); ++i) {
      gpus[i].index = readers()[i]->info().index;
      if (auto changed = session_->look_after(*readers()[i])) push({t_ms, std::move(*changed)});
      if (search && readers()[i]->lost()) readers()[i]->try_to_find_again();
    }
  });
  // One quantity of all GPUs after the other: what is compared between GPUs is read close together.
  for (const CallKind kind : kinds)
    timed(kind, readers().size(), [&] {
      for (std::size_t i = 0; i < readers().size(); ++i) readers()[i]->read(kind, gpus[i]);
    });
  for (const auto& reader : readers()) {
    for (PowerSamples& run : reader->take_extra_power_runs()) {
      GpuSample rest;
      rest.index = reader->info().index;
      rest.power_samples = std::move(run);
      extra.push_back({t_ms, GpuTick{std::move(rest)}});
    }
    if (reader->lost() && known_lost_.insert(reader.get()).second)
      extra.push_back({t_ms, Event{"lost", reader->info().index, "the driver says: GPU is lost"}});
    if (!reader->lost() && known_lost_.erase(reader.get()) > 0)
      extra.push_back({t_ms, Event{"recovered", reader->info().index, "the driver answers again"}});
  }
  push({t_ms, std::move(gpus)});
  for (Record& record : extra) push(std::move(record));
}

void Poller::Work::read_processes(double t_ms) {
  std::map<int, ProcessSample> by_pid;
  bool refused = false;
  timed(CallKind::processes, readers().size(), [&] {
    for (const auto& reader : readers()) {
      // A GPU that is cut into slices lists its slices' processes too: they are told by the slices.
      if (session_->has_slices(*reader)) continue;
      const auto found = reader->read_processes();
      refused = refused || !found;
      if (!found) continue;
      for (const auto& [pid, memory] : *found) {
        ProcessSample& process = by_pid[pid];
        process.pid = pid;
        process.gpus.push_back({reader->info().index, memory});
      }
    }
  });
  // A list that was refused is not an empty one: absence would prove something.
  if (refused && by_pid.empty()) return;
  ProcessTick tick;
  for (auto& [pid, process] : by_pid) tick.push_back(std::move(process));
  push({t_ms, std::move(tick)});
}

void Poller::Work::read_events(double t_ms) {
  constexpr int kMostAtOnce = 64;  // a storm of Xids must not hold the poller
  // One call serves all GPUs: its cost a GPU is a share of it.
  timed(CallKind::events, readers().size(), [&] {
    for (int count = 0; count < kMostAtOnce; ++count) {
      auto xid = session_->next_xid();
      if (!xid) return;
      push({t_ms, std::move(*xid)});
    }
  });
}

void Poller::Work::publish_state() {
  // one line a reason, not a GPU
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> gpus_of;
  for (const auto& reader : readers())
    for (const NotMeasured& entry : reader->not_measured())
      gpus_of[{entry.signal, entry.reason}].push_back(std::to_string(reader->info().index));
  std::vector<NotMeasured> list;
  for (const auto& [entry, gpus] : gpus_of)
    list.push_back({entry.first, gpus.size() == readers().size()
                                     ? entry.second
                                     : fmt::format("{} (GPU {})", entry.second, join(gpus, ", "))});

  SamplingCost cost{schedule_->load(), {}};
  for (std::size_t i = 0; i < kCallKinds; ++i) {
    const auto kind = static_cast<CallKind>(i);
    cost.calls.push_back(
        {kind, schedule_->cost(kind), schedule_->period(kind), schedule_->slowed_down(kind)});
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->not_measured = std::move(list);
  shared_->cost = std::move(cost);
}

void Poller::Work::push(Record record) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->records.size() >= kMostQueued) shared_->records.pop_front();
    shared_->records.push_back(std::move(record));
  }
  shared_->changed.notify_all();
}

Result<std::unique_ptr<Poller>> Poller::start(PollerOptions options) {
  const auto limit = options.start_limit;
  auto shared = std::make_shared<Shared>();
  std::thread thread([work = std::make_shared<Work>(std::move(options), shared)] {
    ::pthread_setname_np(::pthread_self(), "lockstep-poll");
    work->run();
  });
  std::unique_lock lock(shared->mutex);
  if (!shared->changed.wait_for(lock, limit, [&] { return shared->started.has_value(); })) {
    shared->finish = true;  // should the driver come back, nobody listens any more
    thread.detach();
    left_behind = true;
    return Error{
        fmt::format("the NVIDIA driver did not answer within {} ({})", format_duration(limit),
                    shared->call != nullptr ? shared->call.load() : "start"),
        "see `dmesg | grep -i nvrm`; a hung driver usually needs a reboot"};
  }
  if (!*shared->started) {
    Error error = std::move(*shared->started).error();
    lock.unlock();
    thread.join();
    return error;
  }
  Machine machine = std::move(**shared->started);
  lock.unlock();
  return std::unique_ptr<Poller>(
      new Poller(std::move(shared), std::move(thread), std::move(machine)));
}

Poller::Poller(std::shared_ptr<Shared> shared, std::thread thread, Machine machine)
    : shared_(std::move(shared)), thread_(std::move(thread)), machine_(std::move(machine)) {}

Poller::~Poller() {
  finish();
  std::unique_lock lock(shared_->mutex);
  const bool ended = shared_->changed.wait_for(lock, kStopWait, [&] { return shared_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    left_behind = true;
    thread_.detach();
  }
}

void Poller::finish() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->finish = true;
  }
  shared_->changed.notify_all();
}

void Poller::set_interval(std::chrono::nanoseconds interval) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->new_interval = interval;
  }
  shared_->changed.notify_all();
}

NextRecord Poller::next(std::chrono::milliseconds wait) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, wait,
                            [&] { return !shared_->records.empty() || shared_->ended; });
  if (!shared_->records.empty()) {
    Record record = std::move(shared_->records.front());
    shared_->records.pop_front();
    return record;
  }
  if (shared_->ended) return EndOfInput{};
  return NothingYet{};
}

std::vector<NotMeasured> Poller::not_measured() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->not_measured;
}

std::optional<Source::Silence> Poller::silence() const {
  const char* const call = shared_->call;
  if (call == nullptr) return std::nullopt;
  const auto since = monotonic_now() - std::chrono::nanoseconds(shared_->call_since_ns.load());
  if (since < kSilentAfter) return std::nullopt;
  return Source::Silence{std::chrono::duration_cast<std::chrono::milliseconds>(since), call};
}

SamplingCost Poller::cost() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->cost;
}

bool Poller::any_left_behind() { return left_behind; }

}  // namespace lockstep
