#include "sources/parsed/parsed_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr double kMostMemory = 1e14;  // bytes
constexpr double kMostPower = 5e6;    // milliwatts
constexpr int kMostGpus = 1024;

void keep_within(std::optional<double>& value, double least, double most, std::size_t& absurd) {
  if (!value || (std::isfinite(*value) && *value >= least && *value <= most)) return;
  value.reset();
  ++absurd;
}

Reading<double> reading(const std::optional<double>& value) {
  return value ? Reading<double>(*value) : Reading<double>::not_supported();
}

}  // namespace

LogBuilder::LogBuilder(SourceKind kind, ProcessCoverage coverage)
    : kind_(kind), coverage_(coverage) {}

void LogBuilder::check(LogRow& row) {
  keep_within(row.busy, 0, 1, absurd_);
  keep_within(row.memory_used_bytes, 0, kMostMemory, absurd_);
  keep_within(row.memory_total_bytes, 1, kMostMemory, absurd_);
  keep_within(row.memory_fraction, 0, 1, absurd_);
  keep_within(row.power_mw, 0, kMostPower, absurd_);
  keep_within(row.power_limit_mw, 1, kMostPower, absurd_);
  keep_within(row.temperature_c, -50, 200, absurd_);
  keep_within(row.sm_clock_mhz, 0, 20'000, absurd_);
  keep_within(row.power_limit_default_mw, 1, kMostPower, absurd_);
  keep_within(row.sm, 0, 1, absurd_);
  keep_within(row.tensor, 0, 1, absurd_);
  keep_within(row.dram, 0, 1, absurd_);
}

void LogBuilder::add(LogRow row) {
  if (row.gpu < 0 || row.gpu >= kMostGpus) return;
  check(row);
  const bool again =
      std::ranges::any_of(current_.rows, [&](const LogRow& other) { return other.gpu == row.gpu; });
  if (again) end_tick();
  if (!current_.time_s) current_.time_s = row.time_s;
  GpuInfo& info = gpus_[row.gpu];
  info.index = row.gpu;
  if (!row.name.empty()) info.name = row.name;
  if (!row.uuid.empty()) info.uuid = row.uuid;
  if (row.memory_total_bytes)
    info.memory_total_bytes = static_cast<std::uint64_t>(*row.memory_total_bytes);
  if (row.power_limit_mw) info.power_limit_mw = row.power_limit_mw;
  if (row.power_limit_default_mw) info.power_limit_default_mw = row.power_limit_default_mw;
  current_.rows.push_back(std::move(row));
}

void LogBuilder::add_processes(std::optional<double> time_s, ProcessTick processes) {
  if (!current_.time_s) current_.time_s = time_s;
  if (!current_.processes) current_.processes.emplace();
  for (ProcessSample& process : processes) {
    auto known = std::ranges::find_if(
        *current_.processes, [&](const ProcessSample& other) { return other.pid == process.pid; });
    if (known == current_.processes->end())
      current_.processes->push_back(std::move(process));
    else
      known->gpus.insert(known->gpus.end(), process.gpus.begin(), process.gpus.end());
  }
}

void LogBuilder::end_tick() {
  if (!current_.rows.empty() || current_.processes)
    rounds_.push_back(std::exchange(current_, Round{}));
}

// Times in ms from the first. Several ticks with one time stamp (logs that know whole seconds only)
// are spread over the time to the next stamp; ticks without any are taken as a second apart; ticks
// that go back in time are left out.
void LogBuilder::assign_times(ParsedLog& log) {
  std::size_t backwards = 0;
  std::size_t undated = 0;
  const bool timed =
      std::ranges::any_of(rounds_, [](const Round& round) { return round.time_s.has_value(); });
  std::vector<double> times(rounds_.size(), 0);
  std::vector<bool> kept(rounds_.size(), true);
  if (!timed) {
    for (std::size_t i = 0; i < rounds_.size(); ++i)
      times[i] = static_cast<double>(i) * 1000 * taken_every_s_.value_or(1);
    if (rounds_.size() > 1 && !taken_every_s_) {
      log.machine.times_are_known = false;
      log.notes.push_back("no time stamps: readings are taken as one second apart");
    }
  } else {
    constexpr double kNoTimeOfDay = 1e8;
    const auto dated = std::ranges::count_if(
        rounds_, [](const Round& round) { return round.time_s.value_or(0) > kNoTimeOfDay; });
    const bool has_dates = 2 * dated > std::ssize(rounds_);
    double first = 0;
    bool any = false;
    double last = 0;
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      // a first line whose begin was lost: a time of day among dates
      if (has_dates && !any && rounds_[i].time_s.value_or(0) < kNoTimeOfDay) {
        kept[i] = false;
        ++undated;
        continue;
      }
      double at = rounds_[i].time_s.value_or(last);
      if (!any) {
        first = last = at;
        any = true;
        log.machine.started_unix_ns =
            at > 1e8 && at < 9e9 ? static_cast<std::int64_t>(at * 1e9) : 0;
      }
      constexpr double kDay = 86400;
      // a time of day that passed midnight, once or often
      while (first < kDay && at < last - kDay / 2) at += kDay;
      if (at < last) {
        kept[i] = false;
        ++backwards;
        continue;
      }
      times[i] = (at - first) * 1000;
      last = at;
    }
    for (std::size_t from = undated; from < rounds_.size();) {
      std::size_t to = from + 1;
      while (to < rounds_.size() && (!kept[to] || times[to] == times[from])) ++to;
      std::size_t same = 0;
      for (std::size_t i = from; i < to; ++i) same += kept[i] ? 1U : 0U;
      if (same > 1) {
        const double step = to < rounds_.size() ? times[to] - times[from] : 1000;
        std::size_t place = 0;
        for (std::size_t i = from; i < to; ++i)
          if (kept[i])
            times[i] +=
                std::min(step, 1000.0) * static_cast<double>(place++) / static_cast<double>(same);
      }
      from = to;
    }
  }
  if (undated > 0)
    log.notes.push_back(fmt::format("{} {} before the first date {} left out", undated,
                                    undated == 1 ? "reading" : "readings",
                                    undated == 1 ? "was" : "were"));
  if (backwards > 0)
    log.notes.push_back(fmt::format("{} readings go back in time and were left out", backwards));
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    if (!kept[i]) continue;
    GpuTick tick;
    for (const LogRow& row : rounds_[i].rows) {
      GpuSample sample;
      sample.index = row.gpu;
      sample.busy = reading(row.busy);
      std::optional<double> memory = row.memory_used_bytes;
      const auto total = gpus_[row.gpu].memory_total_bytes;
      if (!memory && row.memory_fraction && total)
        memory = *row.memory_fraction * static_cast<double>(*total);
      if (memory) sample.memory_used_bytes = static_cast<std::uint64_t>(*memory);
      if (row.power_mw) sample.power_mw = *row.power_mw;
      if (row.temperature_c) sample.temperature_c = *row.temperature_c;
      if (row.sm_clock_mhz) sample.sm_clock_mhz = *row.sm_clock_mhz;
      if (row.sm) sample.sm = *row.sm;
      if (row.tensor) sample.tensor = *row.tensor;
      if (row.dram) sample.dram = *row.dram;
      if (row.limits) sample.limits = *row.limits;
      tick.push_back(std::move(sample));
    }
    if (!tick.empty()) log.records.push_back({times[i], std::move(tick)});
    if (rounds_[i].processes) log.records.push_back({times[i], std::move(*rounds_[i].processes)});
  }
}

std::optional<ParsedLog> LogBuilder::build() {
  end_tick();
  if (rounds_.empty()) return std::nullopt;
  ParsedLog log;
  log.kind = kind_;
  log.machine.process_coverage = coverage_;
  for (const auto& [index, info] : gpus_) log.machine.gpus.push_back(info);
  assign_times(log);
  if (absurd_ > 0)
    log.notes.push_back(
        fmt::format("{} values were impossible (such as 400 % busy) and were left out", absurd_));
  return log;
}

ParsedSource::ParsedSource(ParsedLog log, std::string name, std::vector<int> gpus)
    : log_(std::move(log)), name_(std::move(name)) {
  if (gpus.empty()) return;
  const auto unwanted = [&](int gpu) { return std::ranges::find(gpus, gpu) == gpus.end(); };
  std::erase_if(log_.machine.gpus, [&](const GpuInfo& gpu) { return unwanted(gpu.index); });
  for (Record& record : log_.records) {
    if (auto* tick = std::get_if<GpuTick>(&record.content)) {
      std::erase_if(*tick, [&](const GpuSample& gpu) { return unwanted(gpu.index); });
    } else if (auto* processes = std::get_if<ProcessTick>(&record.content)) {
      for (ProcessSample& process : *processes)
        std::erase_if(process.gpus, [&](const ProcessOnGpu& gpu) { return unwanted(gpu.index); });
      std::erase_if(*processes, [](const ProcessSample& process) { return process.gpus.empty(); });
    }
  }
}

Result<NextRecord> ParsedSource::next(std::chrono::milliseconds) {
  if (at_ >= log_.records.size()) return NextRecord(EndOfInput{});
  return NextRecord(log_.records[at_++]);
}

std::optional<std::string> ParsedSource::repair_note() const {
  if (log_.notes.empty()) return std::nullopt;
  return fmt::format("{}: {}", printable(name_), join(log_.notes, "; "));
}

}  // namespace lockstep
