#include "signals/host_doing.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "signals/lanes.hpp"
#include "signals/stack_parts.hpp"
#include "signals/statistics.hpp"

namespace lockstep {
namespace {

constexpr int kFewestLooks = 20;
constexpr int kFewestIdleLooks = 12;
constexpr int kFewestIdleStacks = 6;
// By chance, five samples that find the same half of a step are one in thirty.
constexpr int kManyInARow = 5;
// Of one rank, for it to be told from the others.
constexpr int kFewestOfARank = 8;
// Who never does anything else is not the thread that trains: Ray and its like train in another.
constexpr double kNeverTrains = 0.9;
// A meter's sample is the mean over the time before it: it shows a moment this much later.
constexpr double kMeterLagMs = 15;
constexpr double kAtRest = 0.3;     // of the way from rest to work
constexpr double kRestBelow = 0.6;  // of work: power above this all the time shows no rest

// What a look says of the rank, the parts of HostDoing.
enum class Cause : std::uint8_t {
  for_another,  // a queue or a lock: for the loader's workers, or for a thread of its own
  reading,
  writing,
  sleeping,
  talking,
  running,
  unknown
};
constexpr std::size_t kCauses = 7;

Cause cause_of(ThreadDoing main) {
  switch (main) {
    case ThreadDoing::read_file: return Cause::reading;
    case ThreadDoing::write_file: return Cause::writing;
    case ThreadDoing::socket: return Cause::talking;
    case ThreadDoing::sleep: return Cause::sleeping;
    case ThreadDoing::pipe:
    case ThreadDoing::lock: return Cause::for_another;
    case ThreadDoing::run: return Cause::running;
    case ThreadDoing::gpu:
    case ThreadDoing::child:
    case ThreadDoing::other: return Cause::unknown;
  }
  return Cause::unknown;
}

// A worker without an order waits for one in a pipe. One in a lock may wait for a queue that
// several share, or for threads of its own that make a batch: that is left open.
double workers_without_orders(const HostLook& look) {
  return look.workers[index_of(ThreadDoing::pipe)];
}
double workers_at_work(const HostLook& look) {
  double at_work = 0;
  for (const ThreadDoing doing : {ThreadDoing::run, ThreadDoing::read_file, ThreadDoing::write_file,
                                  ThreadDoing::socket, ThreadDoing::sleep, ThreadDoing::child})
    at_work += look.workers[index_of(doing)];
  return at_work;
}

// What one GPU draws: at rest, at work, and at each moment of a run.
class PowerCurve {
 public:
  PowerCurve(const Series<double>& series, const JobSignals& job) : series_(&series) {
    std::vector<double> watts;
    for (std::size_t i = 0; i < series.size(); ++i)
      if (series.t_ms[i] >= job.from_ms && series.t_ms[i] <= job.to_ms)
        watts.push_back(series.values[i]);
    rest_ = quantile(watts, 0.05).value_or(0);
    work_ = std::max(rest_ + 1e-6, quantile(watts, 0.9).value_or(0));
    std::vector<double> shares;
    for (const double value : watts)
      shares.push_back(std::clamp((value - rest_) / (work_ - rest_), 0.0, 1.0));
    works_ = mean_of(shares).value_or(1);
    spacing_ = spacing_of(series).value_or(0);
  }

  // What gaps between kernels leave wavers by a fifth: 197 to 257 W on an H200 that trains GPT-2
  // with one sample a step.
  bool falls_to_rest() const { return rest_ < kRestBelow * work_; }
  double works() const { return works_; }  // share of the time
  double spacing_ms() const { return spacing_; }

  bool rests_at(double t_ms) const {
    const auto after = std::ranges::lower_bound(series_->t_ms, t_ms);
    if (after == series_->t_ms.begin() || after == series_->t_ms.end()) return false;
    const auto i = static_cast<std::size_t>(after - series_->t_ms.begin());
    const double gap = series_->t_ms[i] - series_->t_ms[i - 1];
    if (gap > kLongestGap * spacing_) return false;
    const double part = (t_ms - series_->t_ms[i - 1]) / std::max(1e-9, gap);
    const double value =
        series_->values[i - 1] + part * (series_->values[i] - series_->values[i - 1]);
    return value < rest_ + kAtRest * (work_ - rest_);
  }

 private:
  static constexpr double kLongestGap = 3;  // of the usual one: beyond, nothing is known
  const Series<double>* series_;
  double rest_ = 0;
  double work_ = 1;
  double works_ = 1;
  double spacing_ = 0;
};

// Whether all of a job's GPUs are at rest at a moment, by their power samples: what one waits for
// while another works is the other's matter.
class RestOfAll {
 public:
  RestOfAll(const Timeline& timeline, const JobSignals& job) {
    constexpr double kFineMs = 250;
    const bool tells_apart = job.time && job.time->sees_rest;
    for (const int gpu : job.gpus) {
      const GpuTrack* const track = find_track(timeline, gpu);
      if (track == nullptr) continue;
      // Plain readings are means over a second but on some GPUs.
      const bool sampled = !track->power_samples_mw.empty();
      const Series<double>& series = sampled ? track->power_samples_mw : track->power_mw;
      if (!sampled &&
          (timeline.machine.power_window_ms != 0.0 || spacing_of(series).value_or(1e9) > kFineMs))
        continue;
      curves_.emplace_back(series, job);
      if (!tells_apart && !curves_.back().falls_to_rest()) curves_.pop_back();
    }
    if (curves_.size() != job.gpus.size()) curves_.clear();  // one is not seen to rest
  }

  // Of the time, by the GPU that rests least. Nothing: none is seen to rest.
  std::optional<double> share() const {
    if (curves_.empty()) return std::nullopt;
    double most = 0;
    for (const PowerCurve& curve : curves_) most = std::max(most, curve.works());
    return 1 - most;
  }

  bool at(double t_ms) const {
    return !curves_.empty() && std::ranges::all_of(curves_, [&](const PowerCurve& curve) {
      return curve.rests_at(t_ms + kMeterLagMs);
    });
  }
  // Not at the edge of a rest, where a look may belong to either side.
  bool well_within(double t_ms) const {
    if (curves_.empty()) return false;
    const double sample = curves_.front().spacing_ms();
    return at(t_ms) && at(t_ms - sample) && at(t_ms + sample);
  }

 private:
  std::vector<PowerCurve> curves_;
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

struct RankTally {
  Tally always;
  Tally at_rest;
  Tally well_within;
};

// The rank that does most of it holds the others up; who waits for an answer waits with all the
// others, as at a barrier, unless all of them do it.
double share_of_ranks(const std::map<int, RankTally>& ranks, Cause cause,
                      Tally RankTally::* which) {
  std::optional<double> share;
  Tally pooled;
  for (const auto& [pid, tallies] : ranks) {
    const Tally& own = tallies.*which;
    for (std::size_t i = 0; i < kCauses; ++i) pooled.of[i] += own.of[i];
    pooled.all += own.all;
    if (own.all < kFewestOfARank) continue;
    if (!share)
      share = own.share(cause);
    else
      share = cause == Cause::talking ? std::min(*share, own.share(cause))
                                      : std::max(*share, own.share(cause));
  }
  return share.value_or(pooled.share(cause));
}

// Parts of the step by Python stacks of moments of rest, and the line that each mostly comes from.
class StackTally {
 public:
  void add(const StackSample& stack, int samples) {
    all_ += samples;
    if (stack.frames.empty()) return;  // it could not be read then
    const StepPart part = part_of(stack);
    Entry& entry = entries_[index_of(part)];
    entry.count += samples;
    entry.places[place_of(stack)] += samples;
  }

  double all() const { return all_; }
  double share(StepPart part) const { return all_ > 0 ? entries_[index_of(part)].count / all_ : 0; }

  // As shares of these moments.
  std::vector<StackPart> parts() const {
    std::vector<StackPart> found;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (entry.count == 0) continue;
      const auto place = std::ranges::max_element(
          entry.places, {}, [](const auto& counted) { return counted.second; });
      found.push_back({static_cast<StepPart>(i), entry.count / all_, place->first,
                       static_cast<int>(entry.count)});
    }
    std::ranges::stable_sort(found, std::greater{}, &StackPart::lost);
    return found;
  }

 private:
  struct Entry {
    double count = 0;
    std::map<CodePlace, int> places;
  };
  std::array<Entry, kStepSpanNames.size()> entries_;
  double all_ = 0;
};

// What each part costs. Moments near the edge of a rest may be taken for the other side, which
// mixes the parts: one that is seen mostly at work is not there at rest, and the others share the
// rest among them.
std::vector<StackPart> cost_of_parts(const StackTally& resting, const StackTally& working,
                                     double idle) {
  constexpr double kSeldom = 0.35;  // of what it is at work
  std::vector<StackPart> parts = resting.parts();
  std::erase_if(
      parts, [&](const StackPart& part) { return part.lost < kSeldom * working.share(part.part); });
  double sum = 0;
  for (const StackPart& part : parts) sum += part.lost;
  for (StackPart& part : parts) part.lost *= idle / sum;
  return parts;
}

}  // namespace

std::optional<HostDoing> host_doing(const Timeline& timeline, const JobSignals& job, double idle) {
  const RestOfAll rest(timeline, job);
  std::map<int, RankTally> ranks;
  StackTally stacks;
  StackTally stacks_at_rest;
  StackTally stacks_at_work;
  StackTally stacks_well_within;
  std::array<double, 2> resting_workers = {};  // at work, without orders
  std::array<double, 2> workers = {};
  double looks = 0;
  double idle_looks = 0;
  double inner_looks = 0;
  for (const ProcessList& list : timeline.process_lists)
    for (const ProcessSample& process : list.processes) {
      if (std::ranges::find(job.pids, process.pid) == job.pids.end()) continue;
      for (const StackSample& stack : process.stacks) {
        const double t_ms = list.t_ms - stack.ago_ms;
        if (t_ms < job.from_ms || t_ms > job.to_ms) continue;
        stacks.add(stack, stack.seen);
        // Of few in a row only the first's moment is known; many in a row were there all the while.
        const int known_moments = stack.seen >= kManyInARow ? stack.seen : 1;
        (rest.at(t_ms) ? stacks_at_rest : stacks_at_work).add(stack, known_moments);
        if (rest.well_within(t_ms)) stacks_well_within.add(stack, known_moments);
      }
      for (const HostLook& look : process.looks) {
        const double t_ms = list.t_ms - look.ago_ms;
        if (t_ms < job.from_ms || t_ms > job.to_ms) continue;
        const bool at_rest = rest.at(t_ms);
        workers[0] += workers_at_work(look);
        workers[1] += workers_without_orders(look);
        if (at_rest) {
          resting_workers[0] += workers_at_work(look);
          resting_workers[1] += workers_without_orders(look);
        }
        if (!look.main) continue;
        ++looks;
        RankTally& own = ranks[process.pid];
        own.always.add(cause_of(*look.main));
        if (!at_rest) continue;
        ++idle_looks;
        own.at_rest.add(cause_of(*look.main));
        if (!rest.well_within(t_ms)) continue;
        ++inner_looks;
        own.well_within.add(cause_of(*look.main));
      }
    }
  if (looks < kFewestLooks ||
      share_of_ranks(ranks, Cause::talking, &RankTally::always) > kNeverTrains)
    return std::nullopt;
  HostDoing doing;
  doing.looks = static_cast<int>(looks);
  doing.joined = idle_looks >= kFewestIdleLooks;
  const auto& counted = doing.joined ? resting_workers : workers;
  if (counted[0] + counted[1] > 0) doing.workers_at_work = counted[0] / (counted[0] + counted[1]);
  // Where moments cannot be joined, a rank may do it while its GPU works: it costs no more than
  // there is idle time, and whether it costs anything is not known.
  const auto lost = [&](Cause cause) {
    const double share = share_of_ranks(ranks, cause,
                                        inner_looks >= kFewestIdleLooks ? &RankTally::well_within
                                        : doing.joined                  ? &RankTally::at_rest
                                                                        : &RankTally::always);
    return doing.joined ? idle * share : std::min(idle, share);
  };
  doing.for_another = lost(Cause::for_another);
  doing.reading = lost(Cause::reading);
  doing.writing = lost(Cause::writing);
  doing.sleeping = lost(Cause::sleeping);
  doing.talking = lost(Cause::talking);
  if (inner_looks >= kFewestIdleLooks) doing.computing = lost(Cause::running);
  doing.always_in_a_lock = share_of_ranks(ranks, Cause::for_another, &RankTally::always);
  if (workers[0] + workers[1] > 0)
    doing.workers_ever_at_work = workers[0] / (workers[0] + workers[1]);
  const StackTally& resting =
      stacks_well_within.all() >= kFewestIdleStacks ? stacks_well_within : stacks_at_rest;
  if (resting.all() >= kFewestIdleStacks) {
    doing.stacks = cost_of_parts(resting, stacks_at_work, idle);
    doing.stacks_at_rest = static_cast<int>(resting.all());
  }
  doing.all_stacks = stacks.parts();
  doing.stacks_in_all = static_cast<int>(stacks.all());
  doing.rest_by_power = rest.share();
  return doing;
}

}  // namespace lockstep
