#include "report/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace lockstep {
namespace {

constexpr std::int64_t kFewestSteps = 5;

const JobSignals* job_of(const RunView& run) {
  if (run.diagnosis.first_job >= run.signals.jobs.size()) return nullptr;
  const JobSignals& job = run.signals.jobs[run.diagnosis.first_job];
  const bool steps = job.steps && job.steps->count >= kFewestSteps;
  return job.active || steps ? &job : nullptr;
}

// Batches a second over all ranks, for equal batches a rank.
std::optional<double> step_rate(const JobSignals& job, const Signals& signals) {
  // A trace has few steps, but their lengths are exact.
  if (signals.trace)
    return signals.trace->steps > 0 && signals.trace->step_ms > 0
               ? std::optional(1000 * static_cast<double>(signals.trace->ranks.size()) /
                               signals.trace->step_ms)
               : std::nullopt;
  if (!job.steps || job.steps->count < kFewestSteps || job.steps->duration_p50_ms <= 0)
    return std::nullopt;
  // Late batches and saves are in the mean alone, which probes know of every step.
  if (job.steps->wall_ms > 0)
    return 1000 * static_cast<double>(job.steps->ranks.size()) / job.steps->mean_ms();
  double whole = 0;
  for (const RankSteps& rank : job.steps->ranks)
    whole += rank.duration_ms > 0 ? 1000 / rank.duration_ms : 0;
  return whole;
}

// GPUs' worth of work: what each really did, added up.
double work_of(const JobSignals& job) {
  double sum = 0;
  for (const GpuInJob& member : job.members)
    sum += std::min(member.busy.value_or(0), member.work.value_or(1));
  return sum;
}

// How many GPUs' speed the pattern can have at all.
double equivalents(const JobSignals& job, Pattern pattern) {
  const bool like_one = pattern == Pattern::taking_turns || pattern == Pattern::single_gpu ||
                        pattern == Pattern::independent;
  return like_one ? 1 : static_cast<double>(job.gpus.size());
}

// The missing part of the ideal, shared out among the findings by their own losses.
void split_missing(const RunView& run, Comparison& comparison) {
  const double missing = std::max(0.0, 1 - comparison.efficiency);
  double named = 0;
  for (const Finding& finding : run.diagnosis.findings) named += finding.lost_throughput;
  const double scale = named > missing && named > 0 ? missing / named : 1;
  for (const Finding& finding : run.diagnosis.findings) {
    const FindingName& name = name_of(finding.code);
    if (finding.lost_throughput * scale >= 0.005)
      comparison.missing.push_back(
          {std::string(name.id) + " " + std::string(name.name), finding.lost_throughput * scale});
  }
}

std::string words_of(const Finding& finding) {
  return std::string(name_of(finding.code).id) + " " + std::string(name_of(finding.code).name);
}

// Findings of one run that the other has not even as a suspicion of the same weight.
std::vector<std::string> only_in(const Diagnosis& one, const Diagnosis& other) {
  std::vector<std::string> words;
  for (const Finding& finding : one.findings)
    if (std::ranges::none_of(other.findings,
                             [&](const Finding& theirs) { return theirs.code == finding.code; }))
      words.push_back(words_of(finding));
  return words;
}

// Traces of different programs can be laid beside each other, and say nothing.
double kernels_in_common(const TraceSignals& own, const TraceSignals& theirs) {
  std::set<std::string> known;
  for (const RankBreakdown& rank : theirs.breakdown.ranks)
    for (const KernelSum& kernel : rank.kernels) known.insert(kernel.name);
  double all = 0;
  double common = 0;
  for (const RankBreakdown& rank : own.breakdown.ranks)
    for (const KernelSum& kernel : rank.kernels) {
      all += kernel.sum_us;
      if (known.contains(kernel.name)) common += kernel.sum_us;
    }
  return all > 0 ? common / all : 0;
}

// What a step takes in both, part by part, where they differ or matter.
std::vector<Comparison::Change> changes_of(const JobSignals& own, const JobSignals& theirs,
                                           const TraceSignals& own_trace,
                                           const TraceSignals& their_trace) {
  constexpr double kWorthALine = 0.01;
  std::vector<Comparison::Change> changes;
  changes.push_back({"step", their_trace.step_ms, own_trace.step_ms, "ms"});
  if (own.steps && theirs.steps)
    for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
      if (std::max(own.steps->share[part], theirs.steps->share[part]) >= kWorthALine)
        changes.push_back({std::string(kStepSpanNames[part]), theirs.steps->p50_ms[part],
                           own.steps->p50_ms[part], "ms"});
  const auto mean = [](const TraceSignals& trace, auto value) {
    double sum = 0;
    for (const RankBreakdown& rank : trace.breakdown.ranks)
      sum += rank.span_us > 0
                 ? value(rank) / rank.span_us / static_cast<double>(trace.breakdown.ranks.size())
                 : 0;
    return sum;
  };
  const auto idle = [](const RankBreakdown& rank) { return rank.idle_us; };
  const auto compute = [](const RankBreakdown& rank) { return rank.compute_us; };
  changes.push_back({"GPU idle", mean(their_trace, idle), mean(own_trace, idle), "fraction"});
  changes.push_back(
      {"GPU computing", mean(their_trace, compute), mean(own_trace, compute), "fraction"});
  return changes;
}

// Lines of the same code, whatever their numbers are now.
std::map<std::string, double> code_ms(const StepSignals& steps) {
  std::map<std::string, double> sums;
  for (const PlaceSignals& place : steps.places) {
    if (place.place.file.empty()) continue;
    const std::string file = place.place.file.substr(place.place.file.rfind('/') + 1);
    const std::string what = place.place.what.substr(0, place.place.what.find('<'));
    sums[std::string(kStepSpanNames[index_of(place.part)]) + ": " + what + " in " + file] +=
        place.share * steps.mean_ms();
  }
  return sums;
}

// What a step takes in both by probes: parts, and the code that made most of the difference.
std::vector<Comparison::Change> step_changes(const StepSignals& own, const StepSignals& theirs) {
  constexpr double kWorthALine = 0.01;
  constexpr std::size_t kMostCode = 6;
  std::vector<Comparison::Change> changes = {{"step", theirs.mean_ms(), own.mean_ms(), "ms"}};
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
    if (std::max(own.share[part], theirs.share[part]) >= kWorthALine)
      changes.push_back({std::string(kStepSpanNames[part]), theirs.share[part] * theirs.mean_ms(),
                         own.share[part] * own.mean_ms(), "ms"});
  const auto before = code_ms(theirs);
  const auto now = code_ms(own);
  std::vector<Comparison::Change> code;
  for (const auto& [name, ms] : now) {
    const auto found = before.find(name);
    code.push_back({name, found != before.end() ? found->second : 0, ms, "ms"});
  }
  for (const auto& [name, ms] : before)
    if (!now.contains(name)) code.push_back({name, ms, 0, "ms"});
  const auto difference = [](const Comparison::Change& change) {
    return std::abs(change.own - change.other);
  };
  std::erase_if(code, [&](const Comparison::Change& change) {
    return difference(change) < kWorthALine * theirs.mean_ms();
  });
  std::ranges::stable_sort(code, std::greater{}, difference);
  if (code.size() > kMostCode) code.resize(kMostCode);
  changes.insert(changes.end(), code.begin(), code.end());
  return changes;
}

// Samples of a step's batches, where both runs have one training loader each and it is known.
std::optional<double> samples_a_step(const JobSignals& job) {
  if (!job.settings || !job.steps || job.settings->loaders.empty()) return std::nullopt;
  std::optional<int> batch;
  for (const LoaderSetting& loader : job.settings->loaders) {
    if (!loader.batch || (batch && *batch != *loader.batch)) return std::nullopt;
    batch = loader.batch;
  }
  return *batch * std::max(1.0, job.steps->passes_a_step);
}

}  // namespace

std::optional<Comparison> compare_runs(const RunView& run, const RunView& other,
                                       std::string other_name) {
  const JobSignals* const own = job_of(run);
  const JobSignals* const theirs = job_of(other);
  if (own == nullptr || theirs == nullptr) return std::nullopt;
  Comparison comparison;
  comparison.against = std::move(other_name);
  const auto own_rate = step_rate(*own, run.signals);
  const auto their_rate = step_rate(*theirs, other.signals);
  // a piece of a run says nothing of its speed
  if ((run.signals.trace || other.signals.trace) && !(own_rate && their_rate)) return std::nullopt;
  if (own_rate && their_rate && *their_rate > 0) {
    comparison.measured_by = "steps";
    comparison.speedup = *own_rate / *their_rate;
    const auto own_samples = samples_a_step(*own);
    const auto their_samples = samples_a_step(*theirs);
    if (own_samples && their_samples && *own_samples != *their_samples) {
      comparison.measured_by = "samples";
      comparison.speedup *= *own_samples / *their_samples;
    }
  } else {
    const double base = work_of(*theirs);
    if (base <= 0) return std::nullopt;
    comparison.measured_by = "work";
    comparison.speedup = work_of(*own) / base;
  }
  comparison.ideal =
      static_cast<double>(own->gpus.size()) /
      std::max(1.0,
               equivalents(*theirs,
                           other.diagnosis.verdicts[other.diagnosis.first_job].verdict.pattern));
  // No GPU was seen: as many ranks as before, as fast as before.
  if (own->gpus.empty() && own->steps && theirs->steps && !theirs->steps->ranks.empty())
    comparison.ideal = static_cast<double>(own->steps->ranks.size()) /
                       static_cast<double>(theirs->steps->ranks.size());
  comparison.efficiency = comparison.speedup / comparison.ideal;
  split_missing(run, comparison);
  comparison.only_here = only_in(run.diagnosis, other.diagnosis);
  comparison.only_there = only_in(other.diagnosis, run.diagnosis);
  if (run.signals.trace && other.signals.trace) {
    comparison.changes = changes_of(*own, *theirs, *run.signals.trace, *other.signals.trace);
    comparison.alike = kernels_in_common(*run.signals.trace, *other.signals.trace);
  } else if (own->steps && theirs->steps && !own->steps->places.empty() &&
             !theirs->steps->places.empty()) {
    comparison.changes = step_changes(*own->steps, *theirs->steps);
  }
  return comparison;
}

bool shows_whole_work(const Timeline& timeline, const Signals& signals, std::size_t at) {
  constexpr double kFreeOfIt = 0.5;  // of the memory that it holds at work
  if (at >= signals.jobs.size() || !signals.jobs[at].active) return false;
  const JobSignals& job = signals.jobs[at];
  for (const GpuInJob& member : job.members) {
    const auto track = std::ranges::find_if(
        timeline.gpus, [&](const GpuTrack& gpu) { return gpu.info.index == member.index; });
    if (track == timeline.gpus.end() || track->memory_used_bytes.size() < 3 || !member.memory_bytes)
      return false;
    const std::vector<double>& held = track->memory_used_bytes.values;
    if (held.front() > kFreeOfIt * *member.memory_bytes ||
        held.back() > kFreeOfIt * *member.memory_bytes)
      return false;
  }
  return true;
}

std::optional<Comparison> compare_with_time(const RunView& run, std::chrono::nanoseconds alone,
                                            bool whole) {
  const JobSignals* const own = job_of(run);
  if (!whole || own == nullptr || own->to_ms <= own->from_ms) return std::nullopt;
  Comparison comparison;
  comparison.against = "baseline";
  comparison.measured_by = "time";
  comparison.speedup =
      std::chrono::duration<double, std::milli>(alone).count() / (own->to_ms - own->from_ms);
  comparison.ideal = static_cast<double>(own->gpus.size());
  comparison.efficiency = comparison.speedup / comparison.ideal;
  split_missing(run, comparison);
  return comparison;
}

}  // namespace lockstep
