// The live view: the driver's readings, with the host's knowledge of each process and the step
// marks that it writes.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/source.hpp"
#include "sources/nvml/poller.hpp"
#include "sources/probe/probe_reader.hpp"

namespace lockstep {

// Fills in what is known of processes beside the driver.
class ProcessDescriber {
 public:
  virtual ~ProcessDescriber() = default;
  virtual void describe(ProcessTick& processes, double t_ms) = 0;
  // Looks at their threads, where that can be done and is due; says how long it can wait for the
  // next time.
  virtual std::chrono::nanoseconds look(double /*t_ms*/) { return std::chrono::hours(1); }
  virtual bool local_pids() const = 0;  // whether they are processes of this machine
  virtual std::vector<NotMeasured> not_measured() const = 0;
};

class LiveSource : public Source {
 public:
  LiveSource(std::unique_ptr<Poller> poller, std::unique_ptr<ProcessDescriber> describer,
             SourceKind kind, std::string detail);

  SourceKind kind() const override { return kind_; }
  std::string detail() const override { return detail_; }
  SourceFacts facts() const override {
    return {.live = true, .local_pids = describer_->local_pids()};
  }
  const Machine& machine() const override { return poller_->machine(); }
  Result<NextRecord> next(std::chrono::milliseconds wait) override;
  void finish() override { poller_->finish(); }
  void set_interval(std::chrono::nanoseconds interval) override { poller_->set_interval(interval); }
  std::vector<NotMeasured> not_measured() const override;
  std::optional<Silence> silence() const override { return poller_->silence(); }

  std::optional<double> cost() const override { return poller_->cost().share_of_wall_time; }
  SamplingCost sampling_cost() const { return poller_->cost(); }

 private:
  NextRecord next_reading(std::chrono::milliseconds wait);
  double now_ms() const;
  void take_probes(double until_ms);

  std::unique_ptr<Poller> poller_;
  std::unique_ptr<ProcessDescriber> describer_;
  ProbeReader probes_;
  std::deque<Record> ready_;  // in the order of their times
  std::deque<Record> early_;  // steps and facts that came after the newest reading
  double newest_ms_ = 0;
  SourceKind kind_;
  std::string detail_;
};

}  // namespace lockstep
