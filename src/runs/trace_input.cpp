#include "runs/trace_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "advice/advice_table.hpp"
#include "base/text.hpp"
#include "detectors/diagnosis.hpp"
#include "signals/trace_job.hpp"
#include "sources/trace/rank_matching.hpp"
#include "sources/trace/trace_bytes.hpp"
#include "sources/trace/trace_reader.hpp"
#include "traces/analyse.hpp"
#include "traces/breakdown.hpp"
#include "traces/host_timeline.hpp"

namespace lockstep {
namespace {

std::string name_of(const RankTrace& trace) {
  return printable(trace.file.substr(trace.file.rfind('/') + 1));
}

std::string counted(std::uint64_t number, const char* one, const char* many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

void add_flaws(const RankTrace& trace, std::vector<std::string>& notes) {
  const TraceFlaws& flaws = trace.flaws;
  const std::uint64_t rows = trace.host_rows.size() + trace.device_rows.size();
  if (flaws.too_long)
    notes.push_back(
        fmt::format("{} is longer than lockstep keeps in memory: the first {} rows were read and "
                    "the rest was left out",
                    name_of(trace), rows));
  else if (flaws.damaged)
    notes.push_back(fmt::format("{} is damaged: what stands before the damage was read ({} rows)",
                                name_of(trace), rows));
  else if (flaws.cut)
    notes.push_back(fmt::format(
        "{} ends in the middle: it was not written to its end; what is there was read ({} rows)",
        name_of(trace), rows));
  if (flaws.unreadable_events > 0)
    notes.push_back(fmt::format("{}: {} no JSON and {} passed over", name_of(trace),
                                counted(flaws.unreadable_events, "event is", "events are"),
                                flaws.unreadable_events == 1 ? "was" : "were"));
  if (flaws.without_duration > 0)
    notes.push_back(fmt::format("{}: {} no begin or no duration and {} left out", name_of(trace),
                                counted(flaws.without_duration, "event has", "events have"),
                                flaws.without_duration == 1 ? "was" : "were"));
  if (flaws.negative_durations > 0)
    notes.push_back(fmt::format("{}: {} a negative duration, taken as none", name_of(trace),
                                counted(flaws.negative_durations, "event has", "events have")));
}

bool has_gpu_rows(const RankTrace& trace) {
  return std::ranges::any_of(trace.device_rows,
                             [](const DeviceRow& row) { return is_device_work(row.category); });
}

// Without a GPU's rows there is nothing to break down.
Error no_gpu_rows(const RankTrace& trace) {
  std::string what = fmt::format("{} holds {} of the host and none of a GPU", name_of(trace),
                                 counted(trace.host_rows.size(), "row", "rows"));
  if (trace.flaws.cut || trace.flaws.damaged) what += ", and ends in the middle";
  if (trace.flaws.unreadable_events > 0)
    what += fmt::format("; {} no JSON",
                        counted(trace.flaws.unreadable_events, "event is", "events are"));
  if (trace.flaws.without_duration > 0)
    what += fmt::format("; {} no begin or no duration",
                        counted(trace.flaws.without_duration, "event has", "events have"));
  return {what,
          "trace with torch.profiler.ProfilerActivity.CUDA in a process that uses a GPU; for steps "
          "of the CPU: lockstep profile -- CMD"};
}

// HTA's rounding makes some kernels shorter than nothing; the rest of the analysis takes those as
// points.
void without_negative_lengths(RankTrace& trace) {
  for (DeviceRow& row : trace.device_rows)
    row.duration_ns = std::max<std::int64_t>(0, row.duration_ns);
  for (HostRow& row : trace.host_rows) row.duration_ns = std::max<std::int64_t>(0, row.duration_ns);
}

}  // namespace

Result<JudgedTraces> judge_traces(const std::vector<std::string>& paths,
                                  const TraceQuestion& question) {
  const TraceRules rules = question.rules;
  auto traces = TRY(read_traces(paths, {.round_like_hta = rules == TraceRules::hta}));
  JudgedTraces result;
  result.traces = std::move(traces);
  for (RankTrace& trace : result.traces)
    if (const auto known = question.ranks.find(trace.file);
        known != question.ranks.end() && !trace.told_rank)
      trace.told_rank = known->second;
  if (auto note = match_ranks(result.traces)) result.notes.push_back(std::move(*note));
  for (const RankTrace& trace : result.traces) add_flaws(trace, result.notes);
  const std::string detail = paths.size() == 1
                                 ? paths.front()
                                 : fmt::format("{} and {} more", paths.front(), paths.size() - 1);
  if (std::ranges::none_of(result.traces, has_gpu_rows)) {
    if (!question.without_gpu) return no_gpu_rows(result.traces.front());
    result.timeline = host_timeline(result.traces);
    result.timeline.source_detail = detail;
    if (result.timeline.steps.empty())
      return Error{
          fmt::format(
              "{} holds no whole training step: none is marked by ProfilerStep or Optimizer.step",
              name_of(result.traces.front())),
          "trace longer: --duration 10s, while it trains"};
    result.timeline.not_measured.push_back(
        {"gpu", "nothing of a GPU is in the trace: steps are told by the training thread alone"});
    result.run = judge(result.timeline);
    return result;
  }
  for (const RankTrace& trace : result.traces)
    if (!has_gpu_rows(trace)) result.notes.push_back(no_gpu_rows(trace).what + ": left out");
  std::erase_if(result.traces, [](const RankTrace& trace) { return !has_gpu_rows(trace); });

  TraceBreakdown breakdown = break_down(
      result.traces, rules == TraceRules::hta ? BreakdownRules::like_hta : BreakdownRules::exact);
  if (rules == TraceRules::hta)
    for (RankTrace& trace : result.traces) without_negative_lengths(trace);
  TraceAnalysis analysis = analyse_traces(result.traces, std::move(breakdown));
  result.timeline = std::move(analysis.timeline);
  result.timeline.source_detail = detail;
  result.clock_offsets_ns = std::move(analysis.clock_offsets_ns);
  result.run.signals = signals_of_trace(result.timeline, std::move(analysis.signals));
  result.run.diagnosis = diagnose(result.run.signals);
  add_advice(result.run.diagnosis, result.run.signals);
  for (const std::string& note : result.notes)
    result.timeline.not_measured.push_back({"input", note});
  return result;
}

}  // namespace lockstep
