#include "runs/observation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.hpp"
#include "base/proc.hpp"
#include "base/text.hpp"
#include "runs/watch.hpp"
#include "signals/derive_signals.hpp"
#include "timeline/timeline_builder.hpp"

namespace lockstep {
namespace {

constexpr double kReviewShare = 0.08;

// Leaves the family's processes and GPUs, and the GPUs of nobody where they are wanted.
Status keep_only(const std::set<int>& family, const ObservationOptions& options,
                 Timeline& timeline) {
  std::set<int> held;
  std::set<int> of_others;
  for (ProcessList& list : timeline.process_lists) {
    for (const ProcessSample& process : list.processes)
      for (const ProcessOnGpu& use : process.gpus)
        (family.contains(process.pid) ? held : of_others).insert(use.index);
    std::erase_if(list.processes,
                  [&](const ProcessSample& process) { return !family.contains(process.pid); });
  }
  if (held.empty() && options.without_gpus) {
    timeline.gpus.clear();
    timeline.events.clear();
    return Done{};
  }
  if (held.empty())
    return Error{fmt::format("process {} and its children hold no GPU", *options.pid),
                 "see which do: lockstep monitor --once"};
  std::erase_if(timeline.gpus, [&](const GpuTrack& gpu) {
    if (held.contains(gpu.info.index)) return false;
    return !options.keep_free_gpus || of_others.contains(gpu.info.index);
  });
  std::erase_if(timeline.events, [&](const EventAt& entry) {
    return entry.event.gpu && std::ranges::none_of(timeline.gpus, [&](const GpuTrack& gpu) {
             return gpu.info.index == *entry.event.gpu;
           });
  });
  return Done{};
}

// All processes of the jobs that the process, its children or its parents belong to.
std::set<int> job_around(int pid, const Timeline& timeline) {
  std::set<int> members;
  for (const JobSignals& job : derive_signals(timeline).jobs)
    if (std::ranges::any_of(job.pids, [&](int one) {
          return is_or_stands_below(one, pid) || is_or_stands_below(pid, one);
        }))
      members.insert(job.pids.begin(), job.pids.end());
  return members;
}

}  // namespace

bool is_or_descends_from(const ProcessSample& process, int ancestor, const Source& source) {
  if (process.pid == ancestor) return true;
  if (!process.parent_pid) return false;
  return source.facts().local_pids ? is_or_stands_below(*process.parent_pid, ancestor)
                                   : *process.parent_pid == ancestor;
}

Result<Timeline> observe(Source& source, const ObservationOptions& options) {
  TimelineBuilder builder(source.machine(), source.kind(), source.detail());
  bool any_gpu = false;
  bool seen_enough = false;
  std::set<int> family;  // told while they run: who has ended has no parents any more
  const double review_ms = to_ms(options.review_every);
  std::optional<double> reviewed_ms;
  const auto stop = [&] { return seen_enough || (options.stop && options.stop()); };
  auto watched = watch(source, {options.duration, stop}, [&](const Record& record) -> Status {
    const auto* tick = std::get_if<GpuTick>(&record.content);
    any_gpu = any_gpu || (tick != nullptr && !tick->empty());
    if (const auto* processes = std::get_if<ProcessTick>(&record.content);
        processes != nullptr && options.pid)
      for (const ProcessSample& process : *processes)
        if (is_or_descends_from(process, *options.pid, source)) family.insert(process.pid);
    builder.add(record);
    if (!options.enough || !(any_gpu || options.without_gpus)) return Done{};
    if (!reviewed_ms) reviewed_ms = record.t_ms;
    // A review costs with the length of the run: as that grows they come less often, so that all of
    // them cost no more than a few times the last.
    const Timeline& whole = builder.so_far();
    if (record.t_ms - *reviewed_ms <
        std::max(review_ms, kReviewShare * (whole.to_ms - whole.from_ms)))
      return Done{};
    reviewed_ms = record.t_ms;
    Timeline so_far = builder.build();
    if (options.pid && !keep_only(family, options, so_far)) return Done{};  // it holds no GPU yet
    seen_enough = options.enough(so_far);
    return Done{};
  });
  if (!watched) return std::move(watched).error();
  if (watched->silence && !any_gpu)
    return Error{fmt::format("the driver has not answered '{}' for {}", watched->silence->call,
                             format_duration(watched->silence->since)),
                 "see `dmesg | grep -i nvrm`; a hung driver usually needs a reboot"};
  // recorded by profile on a machine whose GPUs could not be read
  const bool any_step = !source.facts().live && !builder.so_far().steps.empty();
  if (!any_gpu && !any_step && source.kind() != SourceKind::log && !options.without_gpus)
    return Error{fmt::format("{} holds no reading of any GPU", printable(source.detail())),
                 "record longer: lockstep record -o FILE --duration 10s"};
  if (source.facts().live)
    builder.advance_to(
        to_ms(unix_now() - std::chrono::nanoseconds(source.machine().started_unix_ns)));
  Timeline timeline = builder.build();
  timeline.not_measured = source.not_measured();
  if (watched->silence)
    timeline.not_measured.push_back(
        {"all", fmt::format("the driver stopped answering '{}' {} ago", watched->silence->call,
                            format_duration(watched->silence->since))});
  if (options.pid && options.whole_job) family.merge(job_around(*options.pid, timeline));
  if (options.pid) TRY(keep_only(family, options, timeline));
  return timeline;
}

}  // namespace lockstep
