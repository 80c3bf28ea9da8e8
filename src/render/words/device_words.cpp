#include "render/words/device_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "lockstep/probe_names.hpp"
#include "render/words/stack_lines.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostRows = 16;
constexpr double kWorthSaying = 0.005;

std::string percent_words(double share) { return fmt::format("{:.1f} %", share * 100); }

WordTable time_table(const DeviceSignals& devices) {
  WordTable table{"on the GPUs, by their own records",
                  {"rank, GPU", "computes", "only collectives", "only copies", "idle",
                   "collectives hidden", "kernels a step"},
                  {}};
  for (const RankDevices& rank : devices.ranks)
    for (const DeviceUse& use : rank.devices)
      if (table.rows.size() < kMostRows)
        table.rows.push_back(
            {fmt::format("{}, {}", rank.rank, use.device), percent_words(use.computes),
             percent_words(use.exposed), percent_words(use.copies), percent_words(use.idle),
             percent_words(use.hidden), fmt::format("{:.0f}", use.kernels_a_step)});
  return table;
}

WordTable module_table(const std::vector<ModuleTime>& modules) {
  constexpr double kRestWorthARow = 0.01;
  const ModuleTime& all = modules.front();
  const double whole_ms = all.forward_ms + all.backward_ms;
  WordTable table{fmt::format("forward and backward by module, median of {} step{}, {}", all.steps,
                              all.steps == 1 ? "" : "s",
                              all.on_gpu ? "as the GPU's queue took them" : "by the host's clock"),
                  {"module", "class", "forward", "backward", "share"},
                  {}};
  const auto add = [&](std::string name, std::string kind, double forward, double backward) {
    table.rows.push_back({printable(name), printable(kind), milliseconds_words(forward),
                          milliseconds_words(backward),
                          percent_words((forward + backward) / whole_ms)});
  };
  double forward_left = all.forward_ms;
  double backward_left = all.backward_ms;
  for (std::size_t i = 1; i < modules.size(); ++i) {
    const ModuleTime& part = modules[i];
    forward_left -= part.forward_ms;
    backward_left -= part.backward_ms;
    if (table.rows.size() < kMostRows &&
        part.forward_ms + part.backward_ms >= kWorthSaying * whole_ms)
      add(part.name, part.count > 1 ? fmt::format("{} x {}", part.count, part.kind) : part.kind,
          part.forward_ms, part.backward_ms);
  }
  if (forward_left + backward_left >= kRestWorthARow * whole_ms)
    add("outside of them", "", std::max(0.0, forward_left), std::max(0.0, backward_left));
  if (!table.rows.empty()) add("all", all.kind, all.forward_ms, all.backward_ms);
  return table;
}

// The lines that are worth a row.
WordTable stack_table(const StackProfile& profile) {
  constexpr double kAFewStacks = 0.02;
  constexpr std::size_t kPlaceWidth = 48;
  WordTable table{
      fmt::format("where the main threads' Python code was, in {} stacks{}", profile.samples,
                  profile.processes > 1 ? fmt::format(" of {} processes", profile.processes) : ""),
      {"line", "part", "share of the time"},
      {}};
  for (const StackLine& line : stack_lines(profile))
    if (line.share >= kAFewStacks && table.rows.size() < kMostRows)
      table.rows.push_back({printable(short_place(line.place.file, line.place.line, kPlaceWidth) +
                                      "  " + line.place.what),
                            part_words(index_of(line.part)),
                            fmt::format("{:.0f} %", line.share * 100)});
  return table;
}

WordTable speed_table(const CollectiveSignals& collectives) {
  WordTable table{"collectives",
                  {"operation", "ranks", "size", "times", "transfer", "bus speed", "of the link"},
                  {}};
  for (const CollectiveSpeed& speed : collectives.speeds)
    if (table.rows.size() < kMostRows)
      table.rows.push_back(
          {fmt::format("{} {} {}", speed.operation, speed.algorithm, speed.protocol),
           std::to_string(speed.size), format_bytes(speed.bytes), std::to_string(speed.count),
           milliseconds_words(speed.transfer_ms), format_bytes(speed.bus_bytes_s) + "/s",
           collectives.link_bytes_s
               ? fmt::format("{:.0f} %", 100 * speed.bus_bytes_s / *collectives.link_bytes_s)
               : "?"});
  return table;
}

WordTable arrival_table(const CollectiveSignals& collectives) {
  const bool timed = collectives.on_device;
  WordTable table;
  table.title = fmt::format("who {} {} collectives", timed ? "comes late to" : "asks last for",
                            collectives.matched);
  table.heading = {"rank", timed ? "is the last" : "asks last"};
  if (timed)
    table.heading.insert(table.heading.end(),
                         {"others wait for it", "its host asked late", "its GPU was busy"});
  if (collectives.matched == 0 || collectives.ranks.size() < 2) return table;
  std::vector<RankArrival> latest = collectives.ranks;
  std::ranges::stable_sort(latest, [&](const RankArrival& a, const RankArrival& b) {
    return timed ? a.late > b.late : a.last > b.last;
  });
  for (const RankArrival& rank : latest) {
    if (table.rows.size() == kMostRows) break;
    std::vector<std::string> row = {std::to_string(rank.rank), percent_words(rank.last)};
    if (timed)
      row.insert(row.end(), {percent_words(rank.late), percent_words(rank.late_on_host),
                             percent_words(rank.late_on_gpu)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Of the rank whose GPU is idle most.
std::string idle_sentence(const DeviceSignals& devices) {
  const RankDevices* worst = nullptr;
  for (const RankDevices& rank : devices.ranks)
    if (rank.main() != nullptr && (worst == nullptr || rank.main()->idle > worst->main()->idle))
      worst = &rank;
  if (worst == nullptr || worst->main()->idle < kWorthSaying) return "";
  std::vector<std::pair<double, std::string>> parts;
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
    if (worst->idle[i] >= kWorthSaying) parts.emplace_back(worst->idle[i], part_words(i));
  std::sort(parts.rbegin(), parts.rend());
  std::vector<std::string> words;
  for (const auto& [share, part] : parts)
    words.push_back(fmt::format("{} {:.1f} %", part, share * 100));
  std::string text =
      fmt::format("{}the GPU was idle {:.1f} % of the time",
                  devices.ranks.size() > 1 ? fmt::format("rank {}: ", worst->rank) : "",
                  worst->main()->idle * 100);
  if (!words.empty()) text += ", while the host was in: " + join(words, ", ");
  if (worst->launch_gaps >= kWorthSaying)
    text += fmt::format(
        "; {:.1f} % in {:.0f} short gaps a step between kernels that were launched too slowly",
        worst->launch_gaps * 100, worst->launch_gaps_a_step);
  return text;
}

std::string turns_sentence(const RankDevices& rank) {
  return fmt::format(
      "of the time in which a GPU of rank {} computed, exactly one did {:.1f} %, with {:.1f} "
      "hand-overs a step",
      rank.rank, rank.exclusive * 100, rank.hand_overs_a_step);
}

std::string observer_sentence(const DeviceSignals& devices) {
  constexpr double kWorthAWord = 0.01;
  double most = 0;
  double for_good = 0;
  for (const RankDevices& rank : devices.ranks) {
    most = std::max(most, rank.slowed_by_probe);
    for_good = std::max(for_good, rank.slowed_for_good);
  }
  std::string text;
  if (most >= 0.001)
    text = fmt::format(
        "GPU records were taken in {} steps, which that made {:.0f} % longer: it is taken out of "
        "these figures",
        devices.steps, 100 * most / (1 - most));
  if (for_good >= kWorthAWord)
    text += fmt::format(
        "{}steps without records are {:.0f} % longer, too, while CUDA's profiler is in the process "
        "(it leaves where no other thread may call CUDA; --probe python,host runs without it)",
        text.empty() ? "" : "; ", 100 * for_good);
  return text;
}

// What the Python probe's own hooks cost, where a step calls them very often.
std::string hooks_sentence(const StepSignals& steps) {
  constexpr double kWorthTelling = 0.02;
  if (steps.hooks_ms < kWorthTelling * steps.mean_ms()) return "";
  double reads = 0;
  for (const PlaceSignals& place : steps.places)
    if (place.part == StepPart::sync && !place.on_device) reads += place.calls_a_step;
  return fmt::format(
      "the program reads about {:.0f} values a step on the CPU, and the probe's hooks add {:.1f} "
      "ms to that: without them a step takes about {:.1f} ms, not {:.1f}",
      reads, steps.hooks_ms, steps.mean_ms() - steps.hooks_ms, steps.mean_ms());
}

std::string communicator_sentence(const CommunicatorSignals& signals) {
  std::string text = fmt::format(
      "NCCL {} itself counts {} communicator{}, the largest of {} rank{} in {} process{}",
      signals.nccl_version, signals.communicators, signals.communicators == 1 ? "" : "s",
      signals.largest, signals.largest == 1 ? "" : "s", signals.processes,
      signals.processes == 1 ? "" : "es");
  if (signals.looks > 1)
    text +=
        fmt::format("; {} collectives were begun between {} looks", signals.begun, signals.looks);
  return text;
}

}  // namespace

bool stacks_name_the_lines(const Report& report) {
  return report.stacks && (!report.steps || report.steps->places.empty());
}

std::vector<WordTable> device_tables(const Report& report) {
  std::vector<WordTable> tables;
  if (stacks_name_the_lines(report)) tables.push_back(stack_table(*report.stacks));
  if (report.steps && report.steps->modules.size() > 2)
    tables.push_back(module_table(report.steps->modules));
  if (report.steps && report.steps->devices) tables.push_back(time_table(*report.steps->devices));
  if (report.collectives) {
    tables.push_back(speed_table(*report.collectives));
    tables.push_back(arrival_table(*report.collectives));
  }
  std::erase_if(tables, [](const WordTable& table) { return table.rows.empty(); });
  return tables;
}

std::vector<std::string> device_sentences(const Report& report) {
  std::vector<std::string> sentences;
  if (report.steps && report.steps->devices) {
    if (std::string idle = idle_sentence(*report.steps->devices); !idle.empty())
      sentences.push_back(std::move(idle));
    for (const RankDevices& rank : report.steps->devices->ranks)
      if (rank.devices.size() > 1) sentences.push_back(turns_sentence(rank));
    if (std::string observer = observer_sentence(*report.steps->devices); !observer.empty())
      sentences.push_back(std::move(observer));
  }
  if (report.steps)
    if (std::string hooks = hooks_sentence(*report.steps); !hooks.empty())
      sentences.push_back(std::move(hooks));
  if (report.communicators) sentences.push_back(communicator_sentence(*report.communicators));
  return sentences;
}

std::string standing_words(const Report& report) {
  if (report.probes.empty()) return "";
  std::vector<std::string> words;
  for (const ProbeName& probe : kProbeNames)
    if (std::ranges::find(report.probes, probe.name) != report.probes.end())
      words.push_back(fmt::format("{} ({})", probe.gives, probe.name));
  return fmt::format("rung {}: {}", rung_of(report.probes), join(words, ", "));
}

}  // namespace lockstep
