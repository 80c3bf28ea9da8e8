#include "signals/host_doing.hpp"

#include <algorithm>
#include <array>

#include "signals/lanes.hpp"
#include "signals/statistics.hpp"

namespace lockstep {
namespace {

constexpr int kFewestLooks = 20;
constexpr int kFewestIdleLooks = 12;
// A meter's sample is the mean over the time before it: it shows a moment this much later.
constexpr double kMeterLagMs = 15;
constexpr double kAtRest = 0.3;    // of the way from rest to work
constexpr double kNeverLow = 0.5;  // of work: a lane above this all the time shows no rest

// What a look says of the rank, the parts of HostDoing.
enum class Cause : std::uint8_t { input, reading, writing, sleeping, talking, driver, unknown };
constexpr std::size_t kCauses = 7;

double workers_in(const HostLook& look) {
  double all = 0;
  for (const std::uint16_t count : look.workers) all += count;
  return all;
}

// A worker without an order waits for one in a pipe, or for the lock of a queue that several share;
// whatever else it does, it makes a batch.
double workers_at_work(const HostLook& look) {
  return workers_in(look) - look.workers[index_of(ThreadDoing::pipe)] -
         look.workers[index_of(ThreadDoing::lock)];
}

Cause cause_of(const HostLook& look) {
  switch (*look.main) {
    case ThreadDoing::read_file: return Cause::reading;
    case ThreadDoing::write_file: return Cause::writing;
    case ThreadDoing::socket: return Cause::talking;
    case ThreadDoing::sleep: return Cause::sleeping;
    case ThreadDoing::gpu: return Cause::driver;
    case ThreadDoing::pipe:
    case ThreadDoing::lock: {
      // For the loader's queue or its pinning thread; for another thread, as backward() does, if
      // the workers have nothing to do.
      const double workers = workers_in(look);
      return workers > 0 && workers_at_work(look) >= 0.5 * workers ? Cause::input : Cause::unknown;
    }
    case ThreadDoing::run:
    case ThreadDoing::child:
    case ThreadDoing::other: return Cause::unknown;
  }
  return Cause::unknown;
}

// Whether a GPU is at rest at a moment, by the finest lane there is.
class RestLane {
 public:
  RestLane(const Timeline& timeline, const JobSignals& job) {
    lanes_ = power_sample_lanes(timeline, job.gpus, job.from_ms, job.to_ms);
    if (!lanes_) lanes_ = instant_power_lanes(timeline, job.gpus, job.from_ms, job.to_ms);
    if (!lanes_) return;
    for (const auto& row : lanes_->rows) {
      const double low = quantile(row, 0.05).value_or(0);
      const double high = quantile(row, 0.9).value_or(0);
      levels_.push_back(low < kNeverLow * high ? std::optional(low + kAtRest * (high - low))
                                               : std::nullopt);
    }
  }

  std::optional<bool> at(std::size_t row, double t_ms) const {
    if (!lanes_ || row >= levels_.size() || !levels_[row]) return std::nullopt;
    const double bin = (t_ms + kMeterLagMs - lanes_->from_ms) / lanes_->step_ms;
    if (bin < 0 || bin >= static_cast<double>(lanes_->bins())) return std::nullopt;
    const double value = lanes_->rows[row][static_cast<std::size_t>(bin)];
    return known(value) ? std::optional(value < *levels_[row]) : std::nullopt;
  }

 private:
  std::optional<Lanes> lanes_;
  std::vector<std::optional<double>> levels_;
};

struct Tally {
  std::array<double, kCauses> of = {};
  double all = 0;

  void add(Cause cause) {
    ++of[static_cast<std::size_t>(cause)];
    ++all;
  }
  double share(Cause cause) const {
    return all > 0 ? of[static_cast<std::size_t>(cause)] / all : 0;
  }
};

}  // namespace

std::optional<HostDoing> host_doing(const Timeline& timeline, const JobSignals& job, double idle) {
  const RestLane rest(timeline, job);
  Tally always;
  Tally at_rest;
  double workers = 0;
  double at_work = 0;
  double running = 0;
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes) {
      if (std::ranges::find(job.pids, process.pid) == job.pids.end() || process.gpus.empty())
        continue;
      const auto row = std::ranges::find(job.gpus, process.gpus.front().index) - job.gpus.begin();
      for (const HostLook& look : process.looks) {
        const double t_ms = list.t_ms - look.ago_ms;
        if (t_ms < job.from_ms || t_ms > job.to_ms) continue;
        workers += workers_in(look);
        at_work += workers_at_work(look);
        if (!look.main) continue;
        if (*look.main == ThreadDoing::run) ++running;
        always.add(cause_of(look));
        if (rest.at(static_cast<std::size_t>(row), t_ms).value_or(false))
          at_rest.add(cause_of(look));
      }
    }
  if (always.all < kFewestLooks) return std::nullopt;
  HostDoing doing;
  doing.looks = static_cast<int>(always.all);
  doing.joined = at_rest.all >= kFewestIdleLooks;
  doing.running = running / always.all;
  if (workers > 0) doing.workers_at_work = at_work / workers;
  // Where moments cannot be joined, a rank may do it while its GPU works: it costs no more than
  // there is idle time.
  const auto lost = [&](Cause cause) {
    return doing.joined ? idle * at_rest.share(cause) : std::min(idle, always.share(cause));
  };
  doing.input = lost(Cause::input);
  doing.reading = lost(Cause::reading);
  doing.writing = lost(Cause::writing);
  doing.sleeping = lost(Cause::sleeping);
  doing.talking = lost(Cause::talking);
  return doing;
}

}  // namespace lockstep
