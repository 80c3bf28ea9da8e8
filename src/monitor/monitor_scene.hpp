// Puts records into what the live screen shows, and judges the last half minute of them now and
// then.
//
// One thread at a time; what it fills belongs to the caller, who locks it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "monitor/monitored.hpp"
#include "timeline/timeline_builder.hpp"

namespace lockstep {

using Judge = std::function<Report(const Timeline&)>;

struct SceneOptions {
  Judge judge;
  double judge_every_ms = 1000;  // by the records' clock, where judging is cheap; a person looks on
  // Which processes are wanted, and with them their GPUs; nothing: all.
  std::function<bool(const ProcessSample&, const Source&)> wanted;
};

class MonitorScene {
 public:
  MonitorScene(const Source& source, SceneOptions options);

  // Cheap: a few microseconds a GPU.
  void add(Record record);
  // Whether a fresh verdict is due by the records' own clock.
  bool is_judgement_due() const;
  // What is to be judged, taken out so that the judge works without the lock.
  Timeline to_be_judged(std::vector<NotMeasured> not_measured);
  void take_verdict(Report report, std::chrono::nanoseconds took);
  // A verdict at the next record, whatever the clock says.
  void judge_soon() { judged_ms_.reset(); }

  Monitored& seen() { return *seen_; }
  const std::shared_ptr<Monitored>& shared() const { return seen_; }

 private:
  void take_tick(double t_ms, const GpuTick& tick);
  void take_processes(double t_ms, ProcessTick& processes);
  void start_anew(double t_ms);
  void take_event(double t_ms, const Event& event);
  void name_states(double t_ms);
  GpuNow& gpu(int index);

  const Source& source_;
  SceneOptions options_;
  std::shared_ptr<Monitored> seen_;
  TimelineBuilder builder_;
  std::set<int> family_;  // pids that were wanted once
  std::set<int> held_;    // GPUs that they hold
  std::optional<double> judged_ms_;
  double judge_every_ms_;
  std::optional<double> named_ms_;
  std::optional<double> tick_ms_;
};

}  // namespace lockstep
