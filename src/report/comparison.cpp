#include "report/comparison.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

const JobSignals* job_of(const RunView& run) {
  if (run.diagnosis.first_job >= run.signals.jobs.size()) return nullptr;
  const JobSignals& job = run.signals.jobs[run.diagnosis.first_job];
  return job.active ? &job : nullptr;
}

// Batches a second over all ranks, for equal batches a rank.
std::optional<double> step_rate(const JobSignals& job) {
  if (!job.steps || job.steps->count < 5 || job.steps->duration_p50_ms <= 0) return std::nullopt;
  double whole = 0;
  for (const RankSteps& rank : job.steps->ranks) whole += rank.duration_ms > 0 ? 1000 / rank.duration_ms : 0;
  return whole;
}

// GPUs' worth of work: what each really did, added up.
double work_of(const JobSignals& job) {
  double sum = 0;
  for (const GpuInJob& member : job.members) sum += std::min(member.busy.value_or(0), member.work.value_or(1));
  return sum;
}

// How many GPUs' speed the pattern can have at all.
double equivalents(const JobSignals& job, Pattern pattern) {
  const bool like_one = pattern == Pattern::taking_turns || pattern == Pattern::single_gpu || pattern == Pattern::independent;
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
      comparison.missing.push_back({std::string(name.id) + " " + std::string(name.name), finding.lost_throughput * scale});
  }
}

}  // namespace

std::optional<Comparison> compare_runs(const RunView& run, const RunView& other, std::string other_name) {
  const JobSignals* const own = job_of(run);
  const JobSignals* const theirs = job_of(other);
  if (own == nullptr || theirs == nullptr) return std::nullopt;
  Comparison comparison;
  comparison.against = std::move(other_name);
  const auto own_rate = step_rate(*own);
  const auto their_rate = step_rate(*theirs);
  if (own_rate && their_rate && *their_rate > 0) {
    comparison.measured_by = "steps";
    comparison.speedup = *own_rate / *their_rate;
  } else {
    const double base = work_of(*theirs);
    if (base <= 0) return std::nullopt;
    comparison.measured_by = "work";
    comparison.speedup = work_of(*own) / base;
  }
  comparison.ideal = static_cast<double>(own->gpus.size()) / equivalents(*theirs, other.diagnosis.verdicts[other.diagnosis.first_job].verdict.pattern);
  comparison.efficiency = comparison.speedup / comparison.ideal;
  split_missing(run, comparison);
  return comparison;
}

std::optional<Comparison> compare_with_time(const RunView& run, std::chrono::nanoseconds alone) {
  const JobSignals* const own = job_of(run);
  if (own == nullptr || own->to_ms <= own->from_ms) return std::nullopt;
  Comparison comparison;
  comparison.against = "baseline";
  comparison.measured_by = "time";
  comparison.speedup = std::chrono::duration<double, std::milli>(alone).count() / (own->to_ms - own->from_ms);
  comparison.ideal = static_cast<double>(own->gpus.size());
  comparison.efficiency = comparison.speedup / comparison.ideal;
  split_missing(run, comparison);
  return comparison;
}

}  // namespace lockstep
