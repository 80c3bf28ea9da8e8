#include "signals/activity.hpp"

#include <algorithm>
#include <cmath>

#include "signals/statistics.hpp"

namespace lockstep {
namespace {

using Rows = std::vector<std::vector<double>>;

// one reading in passing is a start-up: busy rises before power does
constexpr std::size_t kFewestHollowBins = 3;

// Means of a finer grid over the bins of this one; a coarser grid is read as it stands.
Rows averaged_on(const Lanes& grid, const Lanes& other) {
  if (other.step_ms >= grid.step_ms) return rows_on(grid, other);
  Rows rows(other.rows.size(), std::vector<double>(grid.bins(), kUnknown));
  const double per_bin = grid.step_ms / other.step_ms;
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::size_t bin = 0; bin < grid.bins(); ++bin) {
      const double offset = (grid.from_ms - other.from_ms) / other.step_ms;
      const auto first = static_cast<std::size_t>(
          std::max(0.0, std::floor(offset + static_cast<double>(bin) * per_bin)));
      const auto last = std::min(
          other.bins(), static_cast<std::size_t>(std::max(
                            0.0, std::ceil(offset + static_cast<double>(bin + 1) * per_bin))));
      if (first >= last) continue;
      rows[row][bin] = mean_of({other.rows[row].data() + first, last - first}).value_or(kUnknown);
    }
  return rows;
}

std::optional<Lanes> work_lanes(const Timeline& timeline, const std::vector<int>& gpus,
                                double from_ms, double to_ms) {
  if (auto lanes = power_sample_lanes(timeline, gpus, from_ms, to_ms)) return lanes;
  if (auto lanes = sm_lanes(timeline, gpus, from_ms, to_ms)) return lanes;
  return plain_power_lanes(timeline, gpus, from_ms, to_ms);
}

// What the counters call work is none of a wait, however little it draws.
void add_light_work(const Timeline& timeline, const std::vector<int>& gpus, Activity& activity) {
  const Lanes work{activity.busy.from_ms, activity.busy.step_ms, *activity.work};
  for (std::size_t row = 0; row < work.rows.size(); ++row) {
    const auto light = light_work(find_track(timeline, gpus[row]), work, row,
                                  [](double value) { return value <= Activity::kWorksAbove; });
    for (std::size_t bin = 0; bin < light.size(); ++bin)
      if (light[bin]) (*activity.work)[row][bin] = 1;
  }
}

}  // namespace

bool Activity::known_at(std::size_t bin) const {
  bool any = false;
  for (std::size_t gpu = 0; gpu < busy.rows.size(); ++gpu) {
    if (!read[gpu]) continue;
    if (!known(busy.rows[gpu][bin]) || (work && !known((*work)[gpu][bin]))) return false;
    any = true;
  }
  return any;
}

bool Activity::works(std::size_t gpu, std::size_t bin) const {
  return work ? (*work)[gpu][bin] > kWorksAbove : busy.rows[gpu][bin] > 0.5;
}

bool Activity::spins(std::size_t gpu, std::size_t bin) const {
  return work && busy.rows[gpu][bin] > kRunsAbove && (*work)[gpu][bin] <= kWorksAbove;
}

Activity activity_of(const Timeline& timeline, const std::vector<int>& gpus, double from_ms,
                     double to_ms) {
  Activity activity;
  activity.busy = busy_lanes(timeline, gpus, from_ms, to_ms);
  if (activity.busy.bins() == 0) return activity;
  for (const auto& row : activity.busy.rows) activity.read.push_back(any_known(row));
  if (const auto lanes = work_lanes(timeline, gpus, from_ms, to_ms))
    activity.work = averaged_on(activity.busy, *lanes);
  if (activity.work) add_light_work(timeline, gpus, activity);
  return activity;
}

StallSignals stalls_of(const Activity& activity, const std::vector<int>& gpus, double shortest_ms) {
  StallSignals result;
  const std::size_t bins = activity.busy.bins();
  if (bins < 8) return result;
  std::vector<double> working(bins, kUnknown);
  for (std::size_t bin = 0; bin < bins; ++bin) {
    if (!activity.known_at(bin)) continue;
    working[bin] = 0;
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu)
      working[bin] += activity.works(gpu, bin) ? 1 : 0;
  }
  // The upper quarter: a job that stalls half of the time still works like this when it does.
  const double usual = quantile(working, 0.75).value_or(0);
  if (usual < 1) return result;
  const double low = 0.5 * usual + 1e-9;
  double stalled_ms = 0;
  const auto finish = [&](std::size_t from, std::size_t to) {
    const double length = static_cast<double>(to - from) * activity.busy.step_ms;
    // cut off: its length is not known
    if (length < shortest_ms || from == 0 || to == bins) return;
    Stall stall;
    stall.from_ms = activity.busy.from_ms + static_cast<double>(from) * activity.busy.step_ms;
    stall.to_ms = stall.from_ms + length;
    std::vector<double> worked(gpus.size(), 0);
    for (std::size_t bin = from; bin < to; ++bin)
      for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
        if (activity.works(gpu, bin)) worked[gpu] += 1.0 / static_cast<double>(to - from);
        if (activity.spins(gpu, bin)) stall.spinning_gpus += 1.0 / static_cast<double>(to - from);
      }
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
      stall.working_gpus += worked[gpu];
      if (worked[gpu] > 0.5) stall.workers.push_back(gpus[gpu]);
    }
    stalled_ms += length;
    result.all.push_back(std::move(stall));
  };
  std::optional<std::size_t> since;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const bool stalled = known(working[bin]) && working[bin] < low;
    if (stalled && !since) since = bin;
    if (!stalled && since) {
      finish(*since, bin);
      since.reset();
    }
  }
  result.share = stalled_ms / (static_cast<double>(bins) * activity.busy.step_ms);
  std::vector<double> distances;
  for (std::size_t i = 1; i < result.all.size(); ++i)
    distances.push_back(result.all[i].from_ms - result.all[i - 1].from_ms);
  result.period_ms = median_of(distances);
  return result;
}

// A kernel that waits leaves no gap; many small ones do. (The first readings of a stretch are means
// with what came before.)
bool has_gaps(const Activity& activity, std::size_t from, std::size_t to) {
  constexpr double kWithoutAGap = 0.98;
  const std::size_t middle = from + (to - from) / 4;
  for (std::size_t gpu = 0; gpu < activity.busy.rows.size(); ++gpu) {
    double sum = 0;
    double count = 0;
    for (std::size_t bin = middle; bin < to; ++bin)
      if (activity.spins(gpu, bin)) {
        sum += activity.busy.rows[gpu][bin];
        ++count;
      }
    if (count * 2 > static_cast<double>(to - middle) && sum < kWithoutAGap * count) return true;
  }
  return false;
}

std::vector<Stretch> hollow_stretches(const Activity& activity) {
  std::vector<Stretch> all;
  if (!activity.work) return all;
  std::optional<std::size_t> since;
  const std::size_t bins = activity.busy.bins();
  for (std::size_t bin = 0; bin <= bins; ++bin) {
    bool hollow = false;
    if (bin < bins && activity.known_at(bin)) {
      bool any_spins = false;
      bool any_works = false;
      for (std::size_t gpu = 0; gpu < activity.busy.rows.size(); ++gpu) {
        any_spins = any_spins || activity.spins(gpu, bin);
        any_works = any_works || activity.works(gpu, bin);
      }
      hollow = any_spins && !any_works;
    }
    if (hollow && !since) since = bin;
    if (hollow || !since) continue;
    if (bin - *since < kFewestHollowBins || has_gaps(activity, *since, bin)) {
      since.reset();
      continue;
    }
    const Stretch stretch{
        activity.busy.from_ms + static_cast<double>(*since) * activity.busy.step_ms,
        activity.busy.from_ms + static_cast<double>(bin) * activity.busy.step_ms, bin < bins};
    all.push_back(stretch);
    since.reset();
  }
  return all;
}

}  // namespace lockstep
