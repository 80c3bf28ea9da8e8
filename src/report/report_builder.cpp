#include "report/report_builder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>

#include "base/text.hpp"
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

// A probe that stopped, or had no room for its records, saw a part of the run.
void add_broken_probes(const Timeline& timeline, Report& report) {
  std::map<int, std::int64_t> lost;  // by rank
  for (const FactAt& entry : timeline.facts) {
    const ProbeFact& fact = entry.fact;
    const auto value = [&](const char* name) {
      const auto found = fact.values.find(name);
      std::string text = found == fact.values.end() ? "" : found->second;
      std::ranges::replace(text, '_', ' ');
      return text;
    };
    if (fact.name == "lost") lost[fact.rank] += parse_integer(value("records")).value_or(0);
    if (fact.name == "modules_failed" && fact.rank == 0)
      report.not_measured.push_back({"modules",
                                     "forward and backward by module: the measuring "
                                     "stopped (" +
                                         value("why") + ")"});
    if (fact.name != "stopped") continue;
    const auto seen = std::ranges::count_if(timeline.steps, [&](const StepAt& step) {
      return step.step.rank == fact.rank && step.t_ms <= entry.t_ms;
    });
    report.probes_broke_off = true;
    report.not_measured.push_back(
        {"python", "the Python probe of rank " + std::to_string(fact.rank) + " stopped after " +
                       std::to_string(seen) + (seen == 1 ? " step (" : " steps (") +
                       value("doing") + ": " + value("why") +
                       "): what came later is not in this report"});
  }
  for (const auto& [rank, records] : lost) {
    report.probes_broke_off = true;
    report.not_measured.push_back({"python", "rank " + std::to_string(rank) +
                                                 " made more records than could be kept: " +
                                                 std::to_string(records) + " are missing"});
  }
}

std::vector<std::string> probes_heard(const Timeline& timeline) {
  std::vector<std::string> heard;
  for (const char* const probe : {"cuda", "nccl", "python", "host"})
    if (std::ranges::any_of(timeline.facts, [&](const FactAt& entry) {
          const auto name = entry.fact.values.find("probe");
          return entry.fact.name == "heard" && name != entry.fact.values.end() &&
                 name->second == probe;
        }))
      heard.emplace_back(probe);
  return heard;
}

std::string percent(double fraction) {
  return std::to_string(static_cast<int>(std::lround(fraction * 100))) + " %";
}

constexpr double kBusyTogether = 0.8;
constexpr std::size_t kFewestTicks = 4;  // fewer readings show no pattern
constexpr double kSimilar = 0.85;

CheckItem similar(const char* what, const char* verb, std::optional<double> balance) {
  if (!balance) return {std::string("similar ") + what, "was not read of all GPUs", std::nullopt};
  return {std::string("similar ") + what,
          std::string(verb) + " " + percent(*balance) + " of the highest", *balance >= kSimilar};
}

// What people were told to look for: busy at the same time, similar memory and power, no turns,
// ranks set.
std::vector<CheckItem> checklist_of(const JobSignals& job, const Verdict& verdict) {
  std::vector<CheckItem> items;
  double least = 1;
  bool all_read = true;
  for (const GpuInJob& member : job.members) {
    all_read = all_read && member.busy;
    least = std::min(least, member.busy.value_or(1));
  }
  items.push_back({"GPUs busy together",
                   all_read ? "the least busy is busy " + percent(least) + " of the time"
                            : "was not read of all GPUs",
                   all_read ? std::optional(least >= kBusyTogether) : std::nullopt});
  items.push_back(similar("memory", "the lowest holds", job.memory_balance));
  items.push_back(similar("power", "the lowest draws", job.power_balance));
  if (job.fine)
    items.push_back({"no turns",
                     "exactly one works " + percent(job.fine->exclusive_busy) + " of the time",
                     verdict.pattern != Pattern::taking_turns && job.fine->exclusive_busy < 0.5});
  if (!job.leaked_contexts.empty()) {
    double bytes = 0;
    int gpu = job.leaked_contexts.front().gpu;
    for (const LeakedContext& context : job.leaked_contexts) {
      bytes += context.bytes;
      gpu = std::min(gpu, context.gpu);
    }
    std::ostringstream words;
    words << job.leaked_contexts.size() << " other process"
          << (job.leaked_contexts.size() == 1 ? " holds " : "es hold ") << std::fixed
          << std::setprecision(1) << bytes / 1e9 << " GB on GPU " << gpu
          << " beside their own: torch.cuda.set_device(local_rank) before the first CUDA call, and "
             "map_location in torch.load, stop it";
    items.push_back({"each rank on its own GPU alone", words.str(), false});
  }
  for (const ProcessSample& process : job.processes) {
    const auto number = [](const std::optional<int>& value) {
      return value ? std::to_string(*value) : std::string("not set");
    };
    items.push_back({"ranks set (pid " + std::to_string(process.pid) + ")",
                     "RANK " + number(process.rank) + ", LOCAL_RANK " + number(process.local_rank) +
                         ", WORLD_SIZE " + number(process.world_size),
                     process.rank || job.spawned ? std::optional(true)
                     : process.environment       ? std::optional(false)
                                                 : std::nullopt});
  }
  return items;
}

bool is_in_use(const GpuSignals& gpu) {
  constexpr double kHolds = 0.7e9;  // bytes; a driver's own is less
  return gpu.busy_fraction.value_or(0) >= 0.05 || gpu.memory_used_bytes.value_or(0) >= kHolds;
}

std::string gpus_words(const std::vector<int>& gpus) {
  std::string words = "GPU ";
  for (std::size_t i = 0; i < gpus.size(); ++i)
    words += (i > 0 ? ", " : "") + std::to_string(gpus[i]);
  return words;
}

// One look at the GPUs still answers what it can: those of the first job that hold or do something,
// side by side.
std::vector<CheckItem> snapshot_checklist(const Signals& signals, const std::vector<int>& of_job) {
  std::vector<double> busy;
  std::vector<double> memory;
  std::vector<double> power;
  std::size_t in_use = 0;
  for (const GpuSignals& gpu : signals.gpus) {
    if (!of_job.empty() && std::ranges::find(of_job, gpu.index) == of_job.end()) continue;
    if (!is_in_use(gpu)) continue;
    ++in_use;
    if (gpu.busy_fraction) busy.push_back(*gpu.busy_fraction);
    if (gpu.memory_used_bytes) memory.push_back(*gpu.memory_used_bytes);
    if (gpu.power_mw) power.push_back(*gpu.power_mw);
  }
  if (in_use < 2) return {};
  const auto balance = [&](const std::vector<double>& values) -> std::optional<double> {
    if (values.size() != in_use || *std::ranges::max_element(values) <= 0) return std::nullopt;
    return *std::ranges::min_element(values) / *std::ranges::max_element(values);
  };
  std::vector<CheckItem> items;
  // Busy for half of the time or more and all alike: that is together, as far as so few looks tell.
  constexpr double kAlike = 0.8;
  constexpr double kHalf = 0.5;
  if (busy.size() == in_use) {
    const double least = *std::ranges::min_element(busy);
    const double most = *std::ranges::max_element(busy);
    std::optional<bool> together;
    if (least >= kBusyTogether || (least >= kHalf && least >= kAlike * most)) together = true;
    if (least < kHalf * most) together = false;
    items.push_back({"GPUs busy together",
                     (signals.ticks > 1 ? "in " + std::to_string(signals.ticks) + " looks from "
                                        : std::string("in this one look from ")) +
                         percent(least) + " to " + percent(most),
                     together});
  } else {
    items.push_back({"GPUs busy together", "was not read of all GPUs", std::nullopt});
  }
  items.push_back(similar("memory", "the lowest holds", balance(memory)));
  items.push_back(similar("power", "the lowest draws", balance(power)));
  items.push_back({"no turns", "that takes many looks, one after the other", std::nullopt});
  // Beside a table of more GPUs: of which it speaks.
  if (in_use < static_cast<std::size_t>(std::ranges::count_if(signals.gpus, is_in_use)))
    for (CheckItem& item : items) item.measured = gpus_words(of_job) + ": " + item.measured;
  return items;
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

// What stands beside a GPU's lane is of the time that the headline speaks of: its job's.
void tell_of_its_job(const JobSignals& job, Report& report) {
  for (const GpuInJob& member : job.members)
    for (GpuReport& gpu : report.gpus) {
      if (gpu.info.index != member.index) continue;
      if (gpu.busy && member.busy) gpu.busy = member.busy;
      if (gpu.power_mw && member.power_mw) gpu.power_mw = member.power_mw;
    }
}

std::ptrdiff_t looks_between(const Series<double>& series, double from_ms, double to_ms) {
  return std::ranges::count_if(series.t_ms,
                               [&](double t_ms) { return t_ms >= from_ms && t_ms <= to_ms; });
}

// How long its GPUs hold a job's memory behind its last sign of work: it saves, waits, or hangs. A
// notebook that lies open does so, too.
std::optional<double> held_after_s(const Timeline& timeline, const JobSignals& job) {
  constexpr double kOfTheWatch = 0.2;
  constexpr double kLeastMs = 30'000;  // a save, an evaluation on the host
  constexpr double kSameMemory = 0.8;
  constexpr std::ptrdiff_t kLooksAtAJob = 3;  // one reading above zero is no job
  const double after_ms = timeline.to_ms - job.to_ms;
  if (after_ms < kLeastMs || after_ms < kOfTheWatch * (timeline.to_ms - timeline.from_ms))
    return std::nullopt;
  for (const GpuInJob& member : job.members) {
    const auto track = std::ranges::find_if(
        timeline.gpus, [&](const GpuTrack& each) { return each.info.index == member.index; });
    if (track == timeline.gpus.end() || !member.memory_bytes || track->memory_used_bytes.empty() ||
        track->memory_used_bytes.values.back() < kSameMemory * *member.memory_bytes ||
        looks_between(track->memory_used_bytes, job.from_ms, job.to_ms) < kLooksAtAJob)
      return std::nullopt;
  }
  return job.members.empty() ? std::nullopt : std::optional(after_ms / 1e3);
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
  if (!timeline.machine.times_are_known) report.looks_without_times = signals.ticks;
  for (const GpuTrack& track : timeline.gpus) {
    GpuReport gpu;
    gpu.info = track.info;
    gpu.latest = track.latest;
    gpu.lost = ended_lost(timeline, track.info.index);
    for (const GpuSignals& means : signals.gpus) {
      if (means.index != track.info.index) continue;
      if (!means.busy_is_from_sm) gpu.busy = means.busy_fraction;
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
  report.throughput = diagnosis.throughput;
  report.findings = diagnosis.findings;
  report.suspicions = diagnosis.suspicions;
  for (std::vector<Finding>* const list : {&report.findings, &report.suspicions})
    for (Finding& finding : *list) finding.hosts = hosts_of(finding.gpus, signals);
  const auto add_job = [&](std::size_t at) {
    const JobSignals& job = signals.jobs[at];
    // So few looks are of no job's time: all figures are of all of them.
    const bool works = diagnosis.verdicts[at].verdict.pattern != Pattern::idle;
    if (signals.ticks >= kFewestTicks && works) tell_of_its_job(job, report);
    report.jobs.push_back({job.gpus, job.pids, job.ranks, diagnosis.verdicts[at].verdict, job.name,
                           hosts_of(job.gpus, signals), mean_busy(job),
                           at < diagnosis.ledgers.size() ? diagnosis.ledgers[at] : Ledger{},
                           held_after_s(timeline, job)});
  };
  const bool any_job = diagnosis.first_job < signals.jobs.size();
  if (any_job) add_job(diagnosis.first_job);
  for (std::size_t i = 0; i < signals.jobs.size(); ++i)
    if (i != diagnosis.first_job) add_job(i);
  constexpr std::size_t kLooksOfAPicture = 10;  // fewer, at times that nobody knows, are numbers
  if (report.looks_without_times.value_or(kLooksOfAPicture) >= kLooksOfAPicture)
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
  if (signals.ticks > 0 && signals.ticks < kFewestTicks && !signals.trace)
    report.checklist = snapshot_checklist(
        signals, any_job ? signals.jobs[diagnosis.first_job].gpus : std::vector<int>());
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
  if (any_job) report.stacks = signals.jobs[diagnosis.first_job].host.stacks;
  add_broken_probes(timeline, report);
  report.probes = probes_heard(timeline);
  // others' jobs answer there, too
  if (report.communicators && !report.probes.empty()) report.probes.emplace_back("ras");
  // The steps of one process say nothing of GPUs that nobody saw.
  if (report.gpus.empty() && report.steps && !report.steps->places.empty() &&
      report.steps->ranks.size() < 2)
    report.verdict.reset();
  report.trace = signals.trace;
  if (timeline.source_kind == SourceKind::log &&
      (report.steps || (report.findings.empty() && report.suspicions.empty())))
    report.not_measured.push_back(
        {"GPUs",
         "a training log has no readings of them: lockstep diagnose beside the training, or "
         "nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used,power.draw "
         "--format=csv -l 1 > gpus.csv"});
  if (timeline.source_kind != SourceKind::log && !signals.trace)
    add_absent(timeline, report.not_measured);
  return report;
}

}  // namespace lockstep
