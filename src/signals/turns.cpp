#include "signals/turns.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "signals/statistics.hpp"

namespace lockstep {
namespace {

using Row = std::vector<double>;

// two windows of an H200's utilization: shorter ones repeat each other
constexpr double kShortestBlockMs = 400;
// 164 s of 20 ms samples: enough for a period, cheap to correlate
constexpr std::size_t kPeriodBins = 8192;
constexpr std::size_t kChanceShifts = 8;
// of a block's exclusive time: less is a flicker, not a turn
constexpr double kOwnsBlock = 0.04;

// The lanes at the moments at which all of them are known.
std::vector<Row> complete(const Lanes& lanes) {
  std::vector<const Row*> read;
  for (const Row& row : lanes.rows)
    if (any_known(row)) read.push_back(&row);
  std::vector<Row> rows(read.size());
  for (std::size_t bin = 0; bin < lanes.bins(); ++bin) {
    if (std::ranges::any_of(read, [&](const Row* row) { return !known((*row)[bin]); })) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back((*read[i])[bin]);
  }
  return rows;
}

struct TopTwo {
  double first = 0;
  double second = 0;
  std::size_t owner = 0;
};
TopTwo top_two(const std::vector<Row>& rows, std::size_t bin,
               const std::vector<std::size_t>& shift) {
  TopTwo top;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double value = rows[i][(bin + shift[i]) % rows[i].size()];
    if (value > top.first) {
      top.second = top.first;
      top.first = value;
      top.owner = i;
    } else {
      top.second = std::max(top.second, value);
    }
  }
  return top;
}

double exclusive_share(const std::vector<Row>& rows, const std::vector<std::size_t>& shift) {
  double alone = 0;
  double active = 0;
  for (std::size_t bin = 0; bin < rows.front().size(); ++bin) {
    const TopTwo top = top_two(rows, bin, shift);
    alone += top.first - top.second;
    active += top.first;
  }
  return active > 0 ? alone / active : 0;
}

double chance_share(const std::vector<Row>& all) {
  // A stretch from the middle of a long run is enough to say what chance gives.
  std::vector<Row> rows;
  for (const Row& row : all) {
    const std::size_t from = row.size() > kPeriodBins ? (row.size() - kPeriodBins) / 2 : 0;
    rows.emplace_back(
        row.begin() + static_cast<std::ptrdiff_t>(from),
        row.begin() + static_cast<std::ptrdiff_t>(std::min(row.size(), from + kPeriodBins)));
  }
  const std::size_t bins = rows.front().size();
  double sum = 0;
  for (std::size_t j = 1; j <= kChanceShifts; ++j) {
    std::vector<std::size_t> shift(rows.size(), 0);
    // Multiples of the golden ratio: spread evenly, and no lane keeps its distance to another.
    for (std::size_t i = 0; i < rows.size(); ++i)
      shift[i] = static_cast<std::size_t>(
          std::fmod(0.6180339887 * static_cast<double>(i * j + i * i), 1.0) *
          static_cast<double>(bins));
    sum += exclusive_share(rows, shift);
  }
  return sum / static_cast<double>(kChanceShifts);
}

Row sum_of(const std::vector<Row>& rows) {
  Row sum(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
  return sum;
}

// Variance of the sum over the sum of variances: 0 in turns, 1 by chance, n in step.
double variance_ratio(const std::vector<Row>& rows) {
  double parts = 0;
  for (const Row& row : rows) parts += variance_of(row);
  return parts > 0 ? variance_of(sum_of(rows)) / parts : 1;
}

struct Peak {
  std::size_t lag = 0;
  double height = 0;
};
// The first high peak of the autocorrelation behind its first valley.
std::optional<Peak> autocorrelation_peak(const Row& all) {
  const std::size_t from = all.size() > kPeriodBins ? (all.size() - kPeriodBins) / 2 : 0;
  const std::span<const double> row(all.data() + from, std::min(all.size(), kPeriodBins));
  const double variance = variance_of(row);
  if (row.size() < 12 || variance <= 1e-9) return std::nullopt;
  const double mean = *mean_of(row);
  const std::size_t lags = row.size() / 2;
  Row values(lags, 0);
  for (std::size_t lag = 1; lag < lags; ++lag) {
    double sum = 0;
    for (std::size_t i = lag; i < row.size(); ++i) sum += (row[i] - mean) * (row[i - lag] - mean);
    values[lag] = sum / (static_cast<double>(row.size() - lag) * variance);
  }
  std::size_t valley = 1;
  while (valley + 1 < lags && values[valley + 1] < values[valley]) ++valley;
  const auto highest =
      std::max_element(values.begin() + static_cast<std::ptrdiff_t>(valley), values.end());
  if (highest == values.end() || *highest <= 0) return std::nullopt;
  // Multiples of a period peak as high: the first peak that is nearly as high is the period.
  for (std::size_t lag = valley + 1; lag + 1 < lags; ++lag)
    if (values[lag] >= 0.8 * *highest && values[lag] >= values[lag - 1] &&
        values[lag] >= values[lag + 1])
      return Peak{lag, std::min(values[lag], 1.0)};
  return Peak{static_cast<std::size_t>(highest - values.begin()), std::min(*highest, 1.0)};
}

// In step the sum repeats; in turns it is flat, and the first lane against the others repeats.
std::optional<Peak> clearest_peak(const std::vector<Row>& rows) {
  const Row sum = sum_of(rows);
  Row first(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    first[i] = rows.front()[i] -
               (sum[i] - rows.front()[i]) / std::max(1.0, static_cast<double>(rows.size()) - 1);
  const bool sum_swings_more =
      variance_of(sum) / static_cast<double>(rows.size()) > variance_of(first);
  return autocorrelation_peak(sum_swings_more ? sum : first);
}

void count_hand_overs(const std::vector<Row>& rows, TurnSignals& turns) {
  const std::vector<std::size_t> unshifted(rows.size(), 0);
  std::optional<std::size_t> owner;
  std::vector<bool> had_it(rows.size(), false);
  for (std::size_t bin = 0; bin < rows.front().size(); ++bin) {
    const TopTwo top = top_two(rows, bin, unshifted);
    turns.owned[top.owner] += top.first - top.second;
    if (top.first - top.second < 0.5) continue;  // nobody clearly alone
    if (owner && *owner != top.owner) {
      ++turns.hand_overs;
      if (had_it[top.owner]) ++turns.hand_backs;
    }
    owner = top.owner;
    had_it[top.owner] = true;
  }
  const double all = std::accumulate(turns.owned.begin(), turns.owned.end(), 0.0);
  if (all > 0)
    for (double& share : turns.owned) share /= all;
}

// What a lane reads at rest and at work; nothing: it hardly changes.
struct Levels {
  double rests_below = 0;
  double works_above = 0;
};
std::optional<Levels> levels_of(const Row& row) {
  constexpr double kLeastRange = 0.15;
  const double low = quantile(row, 0.05).value_or(0);
  const double high = quantile(row, 0.9).value_or(0);
  if (high - low < kLeastRange) return std::nullopt;
  return Levels{low + 0.35 * (high - low), low + 0.65 * (high - low)};
}

// When a lane begins to work: from rest, so that noise is no beginning.
std::vector<std::size_t> rises_of(const Row& row, const Levels& levels) {
  std::vector<std::size_t> rises;
  bool rested = false;
  for (std::size_t bin = 0; bin < row.size(); ++bin) {
    if (row[bin] < levels.rests_below) rested = true;
    if (rested && row[bin] > levels.works_above) {
      rises.push_back(bin);
      rested = false;
    }
  }
  return rises;
}

// Of the moments at which a lane begins to work, those at which every other lane that rested just
// before begins too. (The last of a step has not rested: it says nothing.)
std::optional<double> rises_together(const std::vector<Row>& rows, double step_ms) {
  constexpr double kFewest = 12;
  constexpr double kTogetherMs = 50;  // two power samples, and the lag of one GPU's meter
  const auto within = static_cast<std::size_t>(std::max(1.0, std::round(kTogetherMs / step_ms)));
  std::vector<Levels> levels;
  std::vector<std::vector<std::size_t>> rises;
  for (const Row& row : rows) {
    const auto own = levels_of(row);
    if (!own) return std::nullopt;
    levels.push_back(*own);
    rises.push_back(rises_of(row, *own));
  }
  double told = 0;
  double together = 0;
  for (std::size_t i = 0; i < rises.size(); ++i)
    for (const std::size_t rise : rises[i]) {
      if (rise <= within) continue;
      bool any_rested = false;
      bool all_rise = true;
      for (std::size_t j = 0; j < rises.size(); ++j) {
        if (j == i || rows[j][rise - within - 1] > levels[j].rests_below) continue;
        any_rested = true;
        const auto next = std::ranges::lower_bound(rises[j], rise - within);
        all_rise = all_rise && next != rises[j].end() && *next <= rise + within;
      }
      told += any_rested ? 1 : 0;
      together += any_rested && all_rise ? 1 : 0;
    }
  if (told < kFewest) return std::nullopt;
  return together / told;
}

enum class Vote { abstains, exclusive, together };
Vote vote_of(const std::vector<Row>& rows, std::size_t from, std::size_t to) {
  std::vector<Row> block;
  for (const Row& row : rows)
    block.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(from),
                       row.begin() + static_cast<std::ptrdiff_t>(to));
  const std::vector<std::size_t> unshifted(rows.size(), 0);
  Row owned(rows.size(), 0);
  double active = 0;
  double alone = 0;
  for (std::size_t bin = 0; bin < block.front().size(); ++bin) {
    const TopTwo top = top_two(block, bin, unshifted);
    owned[top.owner] += top.first - top.second;
    alone += top.first - top.second;
    active += top.first;
  }
  // nothing ran
  if (active < 0.05 * static_cast<double>(block.front().size())) return Vote::abstains;
  const auto owners =
      std::ranges::count_if(owned, [&](double share) { return share > kOwnsBlock * alone; });
  const bool exclusive =
      alone > 0.5 * active || (1 - variance_ratio(block) > 0.5 && alone > 0.2 * active);
  if (!exclusive) return Vote::together;
  return owners >= 2 ? Vote::exclusive : Vote::abstains;
}

void count_votes(const std::vector<Row>& rows, double step_ms, TurnSignals& turns) {
  const double length_ms =
      std::max(kShortestBlockMs, turns.period_strength > 0.3 ? turns.period_ms.value_or(0) : 0);
  const auto length =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(length_ms / step_ms)));
  for (std::size_t from = length; from + length <= rows.front().size(); from += length) {
    const Vote vote = vote_of(rows, from, from + length);
    if (vote == Vote::abstains) continue;
    ++turns.blocks;
    ++(vote == Vote::exclusive ? turns.blocks_exclusive : turns.blocks_together);
  }
}

}  // namespace

std::optional<TurnSignals> turn_signals(const Lanes& lanes, LaneKind kind, double resolution_ms) {
  if (lanes.rows.size() < 2) return std::nullopt;
  const std::vector<Row> rows = complete(lanes);
  if (rows.size() < 2 || rows.front().size() < 4) return std::nullopt;
  TurnSignals turns;
  turns.kind = kind;
  turns.resolution_ms = resolution_ms;
  turns.bins = rows.front().size();
  const std::vector<std::size_t> unshifted(rows.size(), 0);
  turns.exclusive_busy = exclusive_share(rows, unshifted);
  turns.exclusive_by_chance = chance_share(rows);
  const double ratio = variance_ratio(rows);
  turns.opposed = 1 - ratio;
  turns.together = (ratio - 1) / static_cast<double>(rows.size() - 1);
  turns.owned.assign(rows.size(), 0);
  for (const Row& row : rows) {
    turns.swing += std::sqrt(variance_of(row)) / static_cast<double>(rows.size());
    turns.duty.push_back(mean_of(row).value_or(0));
  }
  double active = 0;
  for (std::size_t bin = 0; bin < turns.bins; ++bin) active += top_two(rows, bin, unshifted).first;
  turns.any_active = active / static_cast<double>(turns.bins);
  count_hand_overs(rows, turns);
  if (const auto peak = clearest_peak(rows)) {
    turns.period_ms = static_cast<double>(peak->lag) * lanes.step_ms;
    turns.period_strength = peak->height;
  }
  turns.rises_together = rises_together(rows, lanes.step_ms);
  count_votes(rows, lanes.step_ms, turns);
  return turns;
}

std::optional<Period> period_of(const Lanes& lanes) {
  if (lanes.rows.empty()) return std::nullopt;
  const std::vector<Row> rows = complete(lanes);
  if (rows.empty() || rows.front().size() < 12) return std::nullopt;
  const auto peak = clearest_peak(rows);
  if (!peak) return std::nullopt;
  return Period{static_cast<double>(peak->lag) * lanes.step_ms, peak->height};
}

}  // namespace lockstep
