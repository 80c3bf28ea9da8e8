#include "report/report_builder.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "lockstep/reported_finding.hpp"
#include "report/lane_pictures.hpp"
#include "report/loader_answer.hpp"

namespace lockstep {
namespace {

// Of those that were read.
std::optional<double> mean_busy(const JobSignals& job) {
  double sum = 0;
  int told = 0;
  for (const GpuInJob& member : job.members) {
    sum += member.busy.value_or(0);
    told += member.busy ? 1 : 0;
  }
  return told > 0 ? std::optional(sum / told) : std::nullopt;
}

bool ended_lost(const Timeline& timeline, int gpu) {
  bool lost = false;
  for (const EventAt& entry : timeline.events) {
    if (entry.event.gpu != gpu) continue;
    if (entry.event.kind == "lost") lost = true;
    if (entry.event.kind == "recovered") lost = false;
  }
  return lost;
}

// Quantities that were asked for and never had, where the source did not already say why.
void add_missing(const Timeline& timeline, std::vector<NotMeasured>& list) {
  std::map<std::string, std::vector<int>> gpus_of;
  for (const GpuTrack& gpu : timeline.gpus)
    for (const MissingSeries& missing : gpu.missing)
      gpus_of[missing.signal].push_back(gpu.info.index);
  for (const auto& [signal, gpus] : gpus_of) {
    const bool explained = std::ranges::any_of(list, [&, &name = signal](const NotMeasured& entry) {
      return entry.signal.find(name) != std::string::npos || entry.signal == "all";
    });
    if (explained) continue;
    std::string which;
    for (const int gpu : gpus) which += (which.empty() ? "" : ", ") + std::to_string(gpu);
    list.push_back({signal, "no value in the input for GPU " + which});
  }
}

// Signals that would have told more, were they there.
void add_absent(const Timeline& timeline, std::vector<NotMeasured>& list) {
  const auto mentioned = [&](const std::string& signal) {
    return std::ranges::any_of(list, [&](const NotMeasured& entry) {
      return entry.signal.find(signal) != std::string::npos;
    });
  };
  const auto absent = [&](const auto& has) { return std::ranges::none_of(timeline.gpus, has); };
  const auto add = [&](const char* signal, const char* reason) {
    if (!mentioned(signal)) list.push_back({signal, reason});
  };
  if (absent([](const GpuTrack& gpu) { return !gpu.power_samples_mw.empty(); }))
    add("power_samples",
        "not in the input: turns shorter than the utilization window cannot be seen; lockstep "
        "record has them");
  if (absent([](const GpuTrack& gpu) { return !gpu.sm.empty(); }))
    add("sm",
        "not in the input: a busy GPU cannot be told from a waiting one by its SMs (needs GPM: "
        "Hopper or later)");
  if (absent([](const GpuTrack& gpu) { return !gpu.tensor.empty(); }))
    add("tensor", "not in the input: whether tensor cores are used is not known");
  if (absent([](const GpuTrack& gpu) { return !gpu.limits.empty(); }))
    add("limits", "not in the input: power and thermal limits are not known");
  if (timeline.process_lists.empty())
    add("processes", "not in the input: which process holds which GPU is not known");
  else if (timeline.machine.process_coverage == ProcessCoverage::partial)
    add("processes", "only some are listed: GPUs of others were joined by likeness");
  if (timeline.steps.empty())
    add("steps", "not in the input: where each step's time goes is not known");
}

std::string percent(double fraction) {
  return std::to_string(static_cast<int>(std::lround(fraction * 100))) + " %";
}

// What people were told to look for: busy at the same time, similar memory and power, no turns,
// ranks set.
std::vector<CheckItem> checklist_of(const JobSignals& job, const Verdict& verdict) {
  constexpr double kBusy = 0.8;
  constexpr double kSimilar = 0.85;
  std::vector<CheckItem> items;
  double least = 1;
  for (const GpuInJob& member : job.members) least = std::min(least, member.busy.value_or(0));
  items.push_back({"GPUs busy together",
                   "the least busy is busy " + percent(least) + " of the time", least >= kBusy});
  if (job.memory_balance)
    items.push_back({"similar memory",
                     "the smallest holds " + percent(*job.memory_balance) + " of the largest",
                     *job.memory_balance >= kSimilar});
  if (job.power_balance)
    items.push_back({"similar power",
                     "the lowest draws " + percent(*job.power_balance) + " of the highest",
                     *job.power_balance >= kSimilar});
  if (job.fine)
    items.push_back({"no turns",
                     "exactly one works " + percent(job.fine->exclusive_busy) + " of the time",
                     verdict.pattern != Pattern::taking_turns && job.fine->exclusive_busy < 0.5});
  for (const ProcessSample& process : job.processes) {
    const auto number = [](const std::optional<int>& value) {
      return value ? std::to_string(*value) : std::string("not set");
    };
    items.push_back({"ranks set (pid " + std::to_string(process.pid) + ")",
                     "RANK " + number(process.rank) + ", LOCAL_RANK " + number(process.local_rank) +
                         ", WORLD_SIZE " + number(process.world_size),
                     process.rank.has_value() || job.spawned});
  }
  return items;
}

// Causes and their effects name the same loss: it counts once.
std::optional<FindingCode> effect_of(const Finding& finding, const std::vector<Finding>& all) {
  const auto first_of =
      [&](std::initializer_list<FindingCode> codes) -> std::optional<FindingCode> {
    for (const FindingCode code : codes)
      if (std::ranges::any_of(all, [&](const Finding& other) { return other.code == code; }))
        return code;
    return std::nullopt;
  };
  switch (finding.code) {
    case FindingCode::world_size_not_set:
      return first_of(
          {FindingCode::taking_turns, FindingCode::one_gpu_leads, FindingCode::idle_gpus});
    case FindingCode::loader_without_workers:
    case FindingCode::pageable_copies:
    case FindingCode::cpu_oversubscribed: return first_of({FindingCode::input_starved});
    case FindingCode::thermal_throttle:
    case FindingCode::power_capped:
    case FindingCode::pcie_degraded: return first_of({FindingCode::straggler_rank});
    case FindingCode::every_rank_saves: return first_of({FindingCode::checkpoint_stall});
    case FindingCode::sync_every_micro_step:
    case FindingCode::slow_link: return first_of({FindingCode::exposed_collectives});
    case FindingCode::reduce_every_step: return first_of({FindingCode::host_sync_every_step});
    case FindingCode::workers_restarted_each_epoch: return first_of({FindingCode::input_starved});
    case FindingCode::logging_too_often:
    case FindingCode::checkpoint_stall:
    case FindingCode::evaluation_stall:
    case FindingCode::stopped_by_collector:
    case FindingCode::input_starved: {
      // One rank's own delay is what the others wait for.
      const auto late = std::ranges::find_if(all, [&](const Finding& other) {
        return other.code == FindingCode::straggler_rank && other.ranks == finding.ranks &&
               finding.ranks.size() == 1;
      });
      return late == all.end() ? std::nullopt : std::optional(FindingCode::straggler_rank);
    }
    default: return std::nullopt;
  }
}

std::optional<Throughput> throughput_of(const Diagnosis& diagnosis, const Signals& signals) {
  if (diagnosis.first_job >= signals.jobs.size() || diagnosis.verdict.pattern == Pattern::idle ||
      diagnosis.verdict.pattern == Pattern::unclear)
    return std::nullopt;
  const JobSignals& job = signals.jobs[diagnosis.first_job];
  const auto touches_job = [&](const Finding& finding) {
    if ((finding.code == FindingCode::idle_gpus && job.origin != JobOrigin::cluster) ||
        job.origin == JobOrigin::steps)
      return true;
    return std::ranges::any_of(
        finding.gpus, [&](int gpu) { return std::ranges::find(job.gpus, gpu) != job.gpus.end(); });
  };
  double now = 1;
  for (const Finding& finding : diagnosis.findings)
    if (touches_job(finding) && !effect_of(finding, diagnosis.findings))
      now *= 1 - finding.lost_throughput;
  return Throughput{now, 1};
}

// By machine, where there are several.
std::vector<HostGpus> hosts_of(const std::vector<int>& gpus, const Signals& signals) {
  std::vector<HostGpus> hosts;
  for (const GpuSignals& gpu : signals.gpus) {
    if (!gpu.info.host || std::ranges::find(gpus, gpu.index) == gpus.end()) continue;
    auto known = std::ranges::find_if(
        hosts, [&](const HostGpus& entry) { return entry.host == *gpu.info.host; });
    if (known == hosts.end()) known = hosts.insert(hosts.end(), {*gpu.info.host, {}});
    known->gpus.push_back(gpu.info.host_index.value_or(gpu.index));
  }
  return hosts;
}

// A picture of a thousand rows shows nothing: of a large fleet, the GPUs of the job that the
// verdict is about.
void keep_rows_of_first_job(Report& report) {
  constexpr std::size_t kMostRows = 64;
  if (report.jobs.empty() || report.gpus.size() <= kMostRows) return;
  const std::vector<int>& wanted = report.jobs.front().gpus;
  for (LanePicture& picture : report.pictures) {
    std::erase_if(picture.rows, [&](const LaneRow& row) {
      return std::ranges::find(wanted, row.gpu) == wanted.end();
    });
    if (picture.rows.size() > kMostRows) picture.rows.resize(kMostRows);
  }
}

}  // namespace

Report build_report(const Timeline& timeline, const Signals& signals) {
  Report report;
  report.source_kind = timeline.source_kind;
  report.source_detail = timeline.source_detail;
  report.duration_s = signals.duration_s;
  for (const GpuTrack& track : timeline.gpus) {
    GpuReport gpu;
    gpu.info = track.info;
    gpu.latest = track.latest;
    gpu.lost = ended_lost(timeline, track.info.index);
    for (const GpuSignals& means : signals.gpus) {
      if (means.index != track.info.index) continue;
      gpu.busy = means.busy_fraction;
      gpu.memory_used_bytes = means.memory_used_bytes;
      gpu.power_mw = means.power_mw;
    }
    report.gpus.push_back(std::move(gpu));
  }
  if (!timeline.process_lists.empty()) report.processes = timeline.process_lists.back().processes;
  for (const EventAt& entry : timeline.events)
    // those are among the findings
    if (entry.event.kind != kReportedFinding) report.events.push_back(entry.event);
  report.not_measured = timeline.not_measured;
  report.clocks = timeline.machine.clocks;
  if (timeline.impossible_values > 0)
    report.not_measured.push_back(
        {"input", std::to_string(timeline.impossible_values) +
                      " values were impossible (such as 400 % busy) and were left out"});
  if (timeline.backward_records > 0)
    report.not_measured.push_back({"input", std::to_string(timeline.backward_records) +
                                                " records went back in time and were left out"});
  add_missing(timeline, report.not_measured);
  return report;
}

Report build_report(const Timeline& timeline, const Signals& signals, const Diagnosis& diagnosis) {
  Report report = build_report(timeline, signals);
  // messages tell nothing of the GPUs
  if (timeline.source_kind != SourceKind::log) report.verdict = diagnosis.verdict;
  report.throughput = throughput_of(diagnosis, signals);
  report.findings = diagnosis.findings;
  for (Finding& finding : report.findings)
    finding.cause_of = effect_of(finding, diagnosis.findings);
  report.suspicions = diagnosis.suspicions;
  for (std::vector<Finding>* const list : {&report.findings, &report.suspicions})
    for (Finding& finding : *list) finding.hosts = hosts_of(finding.gpus, signals);
  const auto add_job = [&](std::size_t at) {
    const JobSignals& job = signals.jobs[at];
    report.jobs.push_back({job.gpus, job.pids, job.ranks, diagnosis.verdicts[at].verdict, job.name,
                           hosts_of(job.gpus, signals), mean_busy(job)});
  };
  const bool any_job = diagnosis.first_job < signals.jobs.size();
  if (any_job) add_job(diagnosis.first_job);
  for (std::size_t i = 0; i < signals.jobs.size(); ++i)
    if (i != diagnosis.first_job) add_job(i);
  report.pictures =
      lane_pictures(timeline, any_job ? signals.jobs[diagnosis.first_job].fine : std::nullopt,
                    any_job ? signals.jobs[diagnosis.first_job].to_ms : timeline.to_ms);
  keep_rows_of_first_job(report);
  for (LanePicture& picture : report.pictures)
    for (LaneRow& row : picture.rows)
      for (const GpuReport& gpu : report.gpus)
        if (gpu.info.index == row.gpu && gpu.info.host)
          row.place =
              *gpu.info.host + ":" + std::to_string(gpu.info.host_index.value_or(gpu.info.index));
  if (any_job && signals.jobs[diagnosis.first_job].gpus.size() > 1 && !signals.trace)
    report.checklist = checklist_of(signals.jobs[diagnosis.first_job],
                                    diagnosis.verdicts[diagnosis.first_job].verdict);
  for (const JobSignals& job : signals.jobs) {
    if (job.collectives) report.collectives = job.collectives;
    if (job.communicators) report.communicators = job.communicators;
  }
  for (const JobSignals& job : signals.jobs)
    if (job.steps) {
      report.steps = job.steps;
      report.loader = loader_answer(job);
      if (job.settings && !job.settings->loader_trial_failed.empty())
        report.not_measured.push_back({"dataloader", job.settings->loader_trial_failed});
    }
  report.trace = signals.trace;
  if (timeline.source_kind != SourceKind::log && !signals.trace)
    add_absent(timeline, report.not_measured);
  return report;
}

}  // namespace lockstep
