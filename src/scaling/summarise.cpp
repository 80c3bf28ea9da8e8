#include "scaling/summarise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/median.hpp"
#include "scaling/scaling_fit.hpp"

namespace lockstep {
namespace {

constexpr double kFarApart = 0.1;  // rounds that differ by more say little about a tenth

void summarise_row(BenchRow& row, int cores, bool on_cores) {
  const auto over_rounds = [&](auto value) {
    std::vector<double> values;
    for (const BenchRound& round : row.rounds) values.push_back(value(round));
    return values;
  };
  const std::vector<double> speeds =
      over_rounds([](const BenchRound& round) { return round.speed; });
  row.speed = median(speeds);
  row.slowest = *std::ranges::min_element(speeds);
  row.fastest = *std::ranges::max_element(speeds);
  row.step_ms = median(over_rounds([](const BenchRound& round) { return round.step_ms; }));
  std::vector<double> epochs;
  for (const BenchRound& round : row.rounds)
    if (round.epoch_s) epochs.push_back(*round.epoch_s);
  if (!epochs.empty()) row.epoch_s = median(epochs);
  std::size_t devices = row.rounds.front().busy.size();
  for (const BenchRound& round : row.rounds) devices = std::min(devices, round.busy.size());
  for (std::size_t i = 0; i < devices; ++i)
    row.busy.push_back(median(over_rounds([i](const BenchRound& round) { return round.busy[i]; })));
  std::map<std::string, std::vector<double>> shares;
  for (const BenchRound& round : row.rounds)
    for (const auto& [name, share] : round.parts) shares[name].push_back(share);
  for (auto& [name, values] : shares)
    if (values.size() == row.rounds.size()) row.parts.emplace_back(name, median(values));
  std::ranges::stable_sort(row.parts,
                           [](const auto& a, const auto& b) { return a.second > b.second; });
  row.too_few_cores = on_cores && std::max(row.what.devices, row.what.ranks) > cores;
}

void add_notes(BenchReport& report) {
  const auto crowded =
      std::ranges::find_if(report.rows, [](const BenchRow& row) { return row.too_few_cores; });
  if (crowded != report.rows.end())
    report.notes.push_back(
        fmt::format("rows with * have more {} than this machine has cores ({}): they share them, "
                    "and show nothing about scaling",
                    report.is_virtual ? "virtual GPUs" : "ranks", report.cores));
  double others = 0;
  double apart = 0;
  for (const BenchRow& row : report.rows) {
    for (const BenchRound& round : row.rounds)
      others = std::max(others, round.other_cores.value_or(0));
    if (row.rounds.size() > 1)
      apart = std::max(apart, (row.fastest - row.slowest) / std::max(row.speed, 1e-9));
  }
  if (report.on_cores && others > kDisturbingShareOfCores * report.cores)
    report.notes.push_back(
        fmt::format("other programs took up to {:.1f} of {} cores while this ran: measure again "
                    "when the machine is quiet",
                    others, report.cores));
  if (apart > kFarApart)
    report.notes.push_back(
        fmt::format("rounds of a row lie up to {:.0f} % apart: differences smaller than that say "
                    "nothing; more rounds (--rounds) or longer ones (--duration) help",
                    apart * 100));
  if (report.rounds == 1)
    report.notes.emplace_back(
        "one round: how far another would lie from it is not known (--rounds 3)");
  if (report.is_virtual)
    report.notes.emplace_back(
        "a virtual GPU is a core of this machine, and ranks exchange gradients through its memory");
}

}  // namespace

void summarise(BenchReport& report) {
  for (BenchRow& row : report.rows)
    if (!row.rounds.empty()) summarise_row(row, report.cores, report.on_cores);
  if (report.rows.empty() || report.rows.front().rounds.empty()) return;
  const BenchRow& first = report.rows.front();
  for (BenchRow& row : report.rows) {
    if (row.rounds.empty() || first.speed <= 0) continue;
    // Rounds that were measured one after the other share what the machine was doing.
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(row.rounds.size(), first.rounds.size()); ++i)
      if (first.rounds[i].speed > 0) ratios.push_back(row.rounds[i].speed / first.rounds[i].speed);
    row.speedup = ratios.empty() ? row.speed / first.speed : median(ratios);
    row.efficiency = row.speedup * first.what.devices / std::max(1, row.what.devices);
  }
  if (report.kind == BenchKind::scaling && report.has_steps) report.fit = fit_scaling(report.rows);
  add_notes(report);
}

}  // namespace lockstep
