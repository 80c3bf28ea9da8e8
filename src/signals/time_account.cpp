#include "signals/time_account.hpp"

#include <algorithm>
#include <cmath>

#include "signals/lanes.hpp"
#include "signals/statistics.hpp"

namespace lockstep {
namespace {

// A GPU that spins in a collective keeps this much of its SMs full: 16 to 32 of 132 blocks.
constexpr double kSpinningSm = 0.18;
// Of its upper level: where a lane never falls below, nothing shows that it ever stopped working.
constexpr double kNeverLow = 0.5;
// Of the moments: so few lie between work and rest that each can be told for one or the other.
constexpr double kBetweenAtMost = 0.25;
constexpr double kSeldomRests = 0.01;  // of the moments
// moments in a row, on average: a meter lags by 10 to 25 ms, one sample
constexpr double kShortestRun = 4;

// How much of a moment a GPU worked: from what its lane reads at work and at rest.
struct WorkScale {
  double rest = 0;
  double work = 1;
  bool resolved = false;   // moments are one or the other: lanes are finer than steps
  bool sees_rest = false;  // and some of them are rest: short gaps between kernels show in none

  double operator()(double value) const {
    if (!known(value)) return kUnknown;
    const double share = std::clamp((value - rest) / std::max(1e-6, work - rest), 0.0, 1.0);
    return resolved ? (share > 0.5 ? 1.0 : 0.0) : share;
  }
};

WorkScale scale_of(const std::vector<double>& row, LaneKind kind) {
  WorkScale scale;
  const double high = quantile(row, 0.9).value_or(1);
  const double low = quantile(row, 0.05).value_or(0);
  if (kind == LaneKind::sm) {  // in units of the fullest GPU of the job: it has a level of its own
    scale.rest = kSpinningSm;
    scale.work = 0.95;
  } else if (low > kNeverLow * high) {
    scale.rest = 0;
    scale.work = std::max(1e-6, low);
    scale.resolved = true;  // every moment is work
    return scale;
  } else {
    scale.rest = low;
    scale.work = high;
  }
  const double span = scale.work - scale.rest;
  double between = 0;
  double low_moments = 0;
  double all = 0;
  double changes = 0;
  std::optional<bool> before;
  for (const double value : row) {
    if (!known(value)) continue;
    ++all;
    if (value > scale.rest + 0.3 * span && value < scale.rest + 0.7 * span) ++between;
    const bool works = value > scale.rest + 0.5 * span;
    if (!works) ++low_moments;
    if (before && *before != works) ++changes;
    before = works;
  }
  scale.resolved = all > 0 && between < kBetweenAtMost * all && changes * kShortestRun < all;
  // Many gaps that are shorter than a moment lower all moments a little and none to rest.
  scale.sees_rest = scale.resolved && low_moments > kSeldomRests * all;
  // Faster than the meter follows: its lane wavers, and tells nothing of waiting.
  if (!scale.resolved && kind == LaneKind::power_samples) scale = WorkScale{0, 1e-6, false, false};
  return scale;
}

struct FineLanes {
  Lanes lanes;
  LaneKind kind = LaneKind::busy;
};

// Plain power readings are means over a second: what waits and what works is mixed in each.
std::optional<FineLanes> finest(const Timeline& timeline, const JobSignals& job) {
  if (auto lanes = power_sample_lanes(timeline, job.gpus, job.from_ms, job.to_ms))
    return FineLanes{std::move(*lanes), LaneKind::power_samples};
  if (auto lanes = instant_power_lanes(timeline, job.gpus, job.from_ms, job.to_ms))
    return FineLanes{std::move(*lanes), LaneKind::power_samples};
  if (auto lanes = sm_lanes(timeline, job.gpus, job.from_ms, job.to_ms))
    return FineLanes{std::move(*lanes), LaneKind::sm};
  return std::nullopt;
}

// Means over all moments at which every row that was read is known.
double mean_of_least_idle(const Lanes& busy) {
  std::vector<double> idle;
  for (std::size_t bin = 0; bin < busy.bins(); ++bin) {
    double most = 0;
    bool any = false;
    for (const auto& row : busy.rows)
      if (known(row[bin])) {
        most = std::max(most, row[bin]);
        any = true;
      }
    if (any) idle.push_back(1 - most);
  }
  return mean_of(idle).value_or(0);
}

// Moments of stretches of a second and more in which every GPU is busy and none reads as at work:
// evaluating, or another part of the program, at less power. Collectives are shorter, and who waits
// for one rank has that rank not busy or at work.
std::vector<bool> all_at_light_work(const std::vector<const GpuTrack*>& tracks,
                                    const FineLanes& fine, const std::vector<WorkScale>& scales,
                                    const Lanes& busy) {
  constexpr double kShortestMs = 900;
  constexpr double kBusy = 0.9;
  // of its working level, above idle: a GPU that spins draws 0.07 to 0.3 of it
  constexpr double kLightAtLeast = 0.3;
  const std::size_t bins = fine.lanes.bins();
  std::vector<bool> light(bins, false);
  const auto busy_rows = rows_on(fine.lanes, busy);
  std::size_t since = 0;
  for (std::size_t bin = 0; bin <= bins; ++bin) {
    bool all = bin < bins;
    for (std::size_t row = 0; row < scales.size() && all; ++row) {
      const double value = fine.lanes.rows[row][bin];
      const GpuTrack* const track = tracks[row];
      const auto counted =
          track != nullptr ? counted_at_work(*track, fine.lanes.time_of(bin)) : std::nullopt;
      const bool is_light = counted.value_or(value > kLightAtLeast * scales[row].work);
      all = known(value) && scales[row](value) < 0.5 && is_light && row < busy_rows.size() &&
            busy_rows[row][bin] >= kBusy;
    }
    if (all) continue;
    if (static_cast<double>(bin - since) * fine.lanes.step_ms >= kShortestMs)
      std::fill(light.begin() + static_cast<std::ptrdiff_t>(since),
                light.begin() + static_cast<std::ptrdiff_t>(bin), true);
    since = bin + 1;
  }
  return light;
}

// Of one lane, in moments at which it is known.
struct Worked {
  double moments = 0;
  double works = 0;
  double rests_while_another_works = 0;
  double waited_for = 0;  // GPUs that rest while it works, shared with others that work then
};

// Of the time, the most that a GPU can have waited in a collective, by its counters: one that spins
// holds a few SMs and leaves the memory alone. An optimizer's step draws half the power of a pass
// and fills both. 1: nothing was counted.
double most_waiting(const GpuTrack* track, double from_ms, double to_ms) {
  constexpr std::size_t kEnough = 8;
  if (track == nullptr) return 1;
  const Series<double>& sm = track->sm;
  const bool has_dram = track->dram.size() == sm.size();
  double sum = 0;
  std::size_t counted = 0;
  for (std::size_t i = 0; i < sm.size(); ++i) {
    if (sm.t_ms[i] < from_ms || sm.t_ms[i] > to_ms) continue;
    double most = (1 - sm.values[i]) / (1 - kSpinningSm);
    if (has_dram) most = std::min(most, 1 - track->dram.values[i]);
    sum += std::clamp(most, 0.0, 1.0);
    ++counted;
  }
  return counted < kEnough ? 1 : sum / static_cast<double>(counted);
}

// Whether anything shows that a job's GPUs work at all: a power that no waiting has, full SMs, or
// moments of rest to compare with. Eight T4 that spin without a pause draw 0.41 of their limit.
bool shows_work(const std::vector<const GpuTrack*>& tracks, const std::vector<WorkScale>& scales) {
  constexpr double kPowerOfWork = 0.5;  // of the limit
  constexpr double kFullSm = 0.4;
  if (std::ranges::any_of(scales, &WorkScale::sees_rest)) return true;
  return std::ranges::any_of(tracks, [](const GpuTrack* track) {
    if (track == nullptr || !track->info.power_limit_mw) return true;
    const auto& power =
        track->power_samples_mw.empty() ? track->power_mw.values : track->power_samples_mw.values;
    return quantile(power, 0.99).value_or(0) >= kPowerOfWork * *track->info.power_limit_mw ||
           quantile(track->sm.values, 0.9).value_or(0) >= kFullSm;
  });
}

// Tells waiting from working, and waiting for another rank from waiting with all.
void account_waiting(const Timeline& timeline, const FineLanes& fine, const Lanes& busy,
                     double least_idle, JobSignals& job, JobTime& time) {
  std::vector<WorkScale> scales;
  for (const auto& row : fine.lanes.rows) scales.push_back(scale_of(row, fine.kind));
  std::vector<const GpuTrack*> tracks;
  for (const int gpu : job.gpus) tracks.push_back(find_track(timeline, gpu));
  const std::vector<bool> all_light = all_at_light_work(tracks, fine, scales, busy);
  std::vector<std::vector<bool>> own_light;
  for (std::size_t row = 0; row < scales.size(); ++row)
    own_light.push_back(light_work(tracks[row], fine.lanes, row, [&](double value) {
      return fine.kind == LaneKind::power_samples && scales[row](value) < 0.5;
    }));
  std::vector<Worked> lanes(scales.size());
  std::vector<double> now(scales.size());
  double moments = 0;
  double none = 0;
  for (std::size_t bin = 0; bin < fine.lanes.bins(); ++bin) {
    double sum = 0;
    double most = 0;
    double read = 0;
    for (std::size_t row = 0; row < scales.size(); ++row) {
      now[row] = scales[row](fine.lanes.rows[row][bin]);
      if (!known(now[row])) continue;
      if (own_light[row][bin]) now[row] = 1;
      ++read;
      sum += now[row];
      most = std::max(most, now[row]);
    }
    if (read == 0) continue;
    if (all_light[bin]) {  // nobody waits, and nobody rests: another kind of work
      sum = read;
      most = 1;
    }
    ++moments;
    none += 1 - most;
    const double resting = read - sum;
    for (std::size_t row = 0; row < scales.size(); ++row) {
      if (!known(now[row])) continue;
      if (all_light[bin]) now[row] = 1;
      ++lanes[row].moments;
      lanes[row].works += now[row];
      lanes[row].rests_while_another_works += std::max(0.0, most - now[row]);
      if (sum > 0) lanes[row].waited_for += resting * now[row] / sum;
    }
  }
  if (moments == 0) return;
  const bool several = job.members.size() > 1;
  time.resolved = std::ranges::all_of(scales, &WorkScale::resolved);
  // Where moments are means over work and rest, as those of SM counters are, none of them shows
  // that all rested.
  time.sees_rest =
      fine.kind == LaneKind::power_samples && std::ranges::all_of(scales, &WorkScale::sees_rest);
  if (several && time.sees_rest) time.idle_together = std::min(least_idle, none / moments);
  double least_wait = 1;
  double waited_for = 0;
  for (const Worked& lane : lanes) waited_for += lane.waited_for;
  for (std::size_t row = 0; row < job.members.size(); ++row) {
    GpuInJob& member = job.members[row];
    if (!member.time || lanes[row].moments == 0) continue;
    const double own = lanes[row].moments;
    member.time->working = std::min(*member.busy, lanes[row].works / own);
    if (fine.kind == LaneKind::power_samples)
      member.time->working = std::max(
          member.time->working,
          *member.busy - most_waiting(find_track(timeline, member.index), job.from_ms, job.to_ms));
    member.time->waiting = *member.busy - member.time->working;
    if (waited_for > 0) member.time->waited_for = lanes[row].waited_for / waited_for;
    const double idle_alone = std::max(0.0, member.time->idle - time.idle_together);
    const double for_another = std::clamp(lanes[row].rests_while_another_works / own - idle_alone,
                                          0.0, member.time->waiting);
    least_wait = std::min(least_wait, member.time->waiting - for_another);
  }
  // An SM counter that never falls has the waits of every step in its mean, and no level of work.
  time.waiting_is_known = fine.kind == LaneKind::sm
                              ? std::ranges::any_of(scales, &WorkScale::sees_rest)
                              : time.resolved && shows_work(tracks, scales);
  time.waiting_together = several ? least_wait : 0;
}

}  // namespace

void add_time_account(const Timeline& timeline, const Activity& activity, JobSignals& job) {
  if (activity.busy.bins() == 0 || job.members.empty()) return;
  JobTime time;
  double least_idle = 1;
  std::size_t read = 0;
  double unread = 0;
  for (std::size_t row = 0; row < job.members.size(); ++row) {
    GpuInJob& member = job.members[row];
    const auto bins = static_cast<double>(activity.busy.bins());
    const auto gaps = static_cast<double>(
        std::ranges::count_if(activity.busy.rows[row], [](double value) { return !known(value); }));
    unread += gaps / bins / static_cast<double>(job.members.size());
    if (!member.busy) continue;
    member.time = GpuTime{*member.busy, 0, 1 - *member.busy, 0, gaps / bins};
    least_idle = std::min(least_idle, member.time->idle);
    ++read;
  }
  time.unread = unread;
  if (read == 0) return;
  time.idle_together = std::min(least_idle, mean_of_least_idle(activity.busy));
  if (const auto fine = finest(timeline, job))
    account_waiting(timeline, *fine, activity.busy, least_idle, job, time);
  job.time = time;
}

}  // namespace lockstep
