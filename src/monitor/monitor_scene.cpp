#include "monitor/monitor_scene.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "lockstep/reported_finding.hpp"
#include "report/gpu_states.hpp"

namespace lockstep {
namespace {

// what a verdict is about: enough for slow turns, short enough to follow a change
constexpr double kWindowMs = 30'000;
// and at least so many ticks: logs have one every half minute
constexpr double kWindowTicks = 60;
// of the time: a verdict on half a minute need not be new every second
constexpr double kJudgeShare = 0.0005;
constexpr double kJudgeAtLeastEveryMs = 3000;
constexpr double kFirstVerdictMs = 1500;  // nothing can be said of less
constexpr double kNameEveryMs = 250;      // a word that changes faster cannot be read
constexpr std::size_t kMostSteps = 8192;
constexpr std::size_t kMostEvents = 1000;
constexpr double kLongestTickMs = 5000;  // a pause is not time spent under a limit

std::vector<int> indices_of(const Machine& machine) {
  std::vector<int> list;
  for (const GpuInfo& gpu : machine.gpus) list.push_back(gpu.index);
  return list;
}

}  // namespace

MonitorScene::MonitorScene(const Source& source, SceneOptions options)
    : source_(source),
      options_(std::move(options)),
      seen_(std::make_shared<Monitored>()),
      builder_(source.machine(), source.kind(), source.detail()),
      judge_every_ms_(options_.judge_every_ms) {
  seen_->machine = source.machine();
  seen_->kind = source.kind();
  seen_->detail = source.detail();
  seen_->open = true;
  seen_->local_pids = source.facts().local_pids;
  seen_->history = History(indices_of(source.machine()));
  for (const GpuInfo& info : source.machine().gpus) gpu(info.index);
}

GpuNow& MonitorScene::gpu(int index) {
  for (GpuNow& known : seen_->gpus)
    if (known.info.index == index) return known;
  GpuNow fresh;
  fresh.info.index = fresh.latest.index = index;
  for (const GpuInfo& info : seen_->machine.gpus)
    if (info.index == index) fresh.info = info;
  const auto after = std::ranges::find_if(
      seen_->gpus, [index](const GpuNow& now) { return now.info.index > index; });
  return *seen_->gpus.insert(after, std::move(fresh));
}

void MonitorScene::add(Record record) {
  // counted there, and of no use here
  if (!builder_.accepts(record.t_ms)) return builder_.add(record);
  if (auto* processes = std::get_if<ProcessTick>(&record.content))
    take_processes(record.t_ms, *processes);
  else if (auto* tick = std::get_if<GpuTick>(&record.content)) {
    if (!held_.empty())
      std::erase_if(*tick, [&](const GpuSample& sample) { return !held_.contains(sample.index); });
    take_tick(record.t_ms, *tick);
  } else if (const auto* step = std::get_if<StepMark>(&record.content)) {
    seen_->steps.push_back({record.t_ms, *step});
    // the screen shows parts; the lines are the judgement's
    seen_->steps.back().step.detail.reset();
    if (seen_->steps.size() > kMostSteps) seen_->steps.pop_front();
  } else if (const auto* event = std::get_if<Event>(&record.content)) {
    // which a machine repeats at every scrape
    const bool happened = event->kind != kReportedFinding;
    if (happened) seen_->events.push_back({record.t_ms, *event});
    if (seen_->events.size() > kMostEvents) seen_->events.pop_front();
    take_event(record.t_ms, *event);
  }
  builder_.add(record);
  if (std::holds_alternative<GpuTick>(record.content)) name_states(record.t_ms);
}

void MonitorScene::take_tick(double t_ms, const GpuTick& tick) {
  const double since_ms = tick_ms_ ? std::clamp(t_ms - *tick_ms_, 0.0, kLongestTickMs) : 0;
  tick_ms_ = t_ms;
  seen_->history.add(t_ms, tick);
  for (const GpuSample& sample : tick) {
    GpuNow& now = gpu(sample.index);
    // A reading that fails leaves the last good one, grown old.
    for_each_quantity(
        [](const char*, const auto& reading, auto& latest) {
          if (!reading.asked()) return;
          if (reading.has_value() || !latest.last_value())
            latest = reading;
          else
            latest = latest.as_stale();
        },
        sample, now.latest);
    if (sample.busy.has_value()) now.heard_ms = t_ms;
    if (const auto limits = now.latest.limits.value())
      if (is_throttled(*limits)) now.limited_ms += since_ms;
  }
}

void MonitorScene::take_processes(double t_ms, ProcessTick& processes) {
  if (options_.wanted) {
    for (const ProcessSample& process : processes)
      if (options_.wanted(process, source_)) family_.insert(process.pid);
    std::erase_if(processes,
                  [&](const ProcessSample& process) { return !family_.contains(process.pid); });
    for (const ProcessSample& process : processes)
      for (const ProcessOnGpu& use : process.gpus) held_.insert(use.index);
    if (!held_.empty())
      std::erase_if(seen_->gpus,
                    [&](const GpuNow& now) { return !held_.contains(now.info.index); });
  }
  // All that ran have ended: what they did says nothing of what comes.
  const auto still_runs = [&](const ProcessSample& before) {
    return std::ranges::any_of(processes,
                               [&](const ProcessSample& now) { return now.pid == before.pid; });
  };
  const bool all_ended =
      !seen_->processes.empty() && std::ranges::none_of(seen_->processes, still_runs);
  seen_->processes = processes;
  seen_->waits_for_wanted = options_.wanted && family_.empty();
  if (all_ended) start_anew(t_ms);
}

void MonitorScene::start_anew(double t_ms) {
  builder_.forget_before(t_ms);
  judged_ms_.reset();
  seen_->report.reset();
  seen_->history.set_verdict(t_ms, {Pattern::idle, 0, "watching what comes next"});
}

void MonitorScene::take_event(double t_ms, const Event& event) {
  if (event.kind == "driver_gone") seen_->driver_gone = true;
  if (event.kind == "driver_back") {
    seen_->driver_gone = false;
    start_anew(t_ms);
  }
  if (!event.gpu || (!held_.empty() && !held_.contains(*event.gpu))) return;
  if (event.kind == "xid") ++gpu(*event.gpu).xids[event.detail];
  if (event.kind == "lost") gpu(*event.gpu).lost = true;
  if (event.kind == "recovered") gpu(*event.gpu).lost = false;
}

void MonitorScene::name_states(double t_ms) {
  if (named_ms_ && t_ms - *named_ms_ < kNameEveryMs) return;
  named_ms_ = t_ms;
  const Timeline& timeline = builder_.so_far();
  const std::vector<GpuState> states = gpu_states(timeline, seen_->report.get());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const int index = timeline.gpus[i].info.index;
    if (!held_.empty() && !held_.contains(index)) continue;
    gpu(index).state = states[i];
    seen_->history.set_state(t_ms, index, states[i]);
  }
}

bool MonitorScene::is_judgement_due() const {
  const Timeline& timeline = builder_.so_far();
  if (timeline.to_ms - timeline.from_ms < kFirstVerdictMs || !tick_ms_) return false;
  return !judged_ms_ || timeline.to_ms - *judged_ms_ >= judge_every_ms_;
}

Timeline MonitorScene::to_be_judged(std::vector<NotMeasured> not_measured) {
  builder_.forget_before(builder_.so_far().to_ms -
                         std::max(kWindowMs, kWindowTicks * seen_->history.spacing_ms()));
  judged_ms_ = builder_.so_far().to_ms;
  Timeline timeline = builder_.build();
  timeline.not_measured = std::move(not_measured);
  if (!held_.empty())
    std::erase_if(timeline.gpus,
                  [&](const GpuTrack& track) { return !held_.contains(track.info.index); });
  return timeline;
}

void MonitorScene::take_verdict(Report report, std::chrono::nanoseconds took) {
  judge_every_ms_ = std::clamp(to_ms(took) / kJudgeShare, options_.judge_every_ms,
                               std::max(options_.judge_every_ms, kJudgeAtLeastEveryMs));
  if (report.verdict) seen_->history.set_verdict(judged_ms_.value_or(0), *report.verdict);
  seen_->report = std::make_shared<const Report>(std::move(report));
}

}  // namespace lockstep
