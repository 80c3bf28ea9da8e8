// The steps and facts of the processes that write into one folder, with the readings of the GPUs
// where there are any.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/source.hpp"
#include "sources/probe/probe_reader.hpp"

namespace lockstep {

class ProbeSource : public Source {
 public:
  // `gpus`: a live source; null: no GPU can be read.
  ProbeSource(std::filesystem::path folder, std::unique_ptr<Source> gpus,
              ProbeReader::DeviceWork device_work = ProbeReader::DeviceWork::counted);

  SourceKind kind() const override { return gpus_ ? gpus_->kind() : SourceKind::probe; }
  std::string detail() const override { return gpus_ ? gpus_->detail() : "probes"; }
  SourceFacts facts() const override {
    return gpus_ ? gpus_->facts() : SourceFacts{.live = true, .local_pids = true};
  }
  const Machine& machine() const override { return gpus_ ? gpus_->machine() : machine_; }
  Result<NextRecord> next(std::chrono::milliseconds wait) override;
  void finish() override;
  void set_interval(std::chrono::nanoseconds interval) override {
    if (gpus_) gpus_->set_interval(interval);
  }
  std::vector<NotMeasured> not_measured() const override;
  std::optional<Silence> silence() const override {
    return gpus_ ? gpus_->silence() : std::nullopt;
  }
  std::optional<double> cost() const override { return gpus_ ? gpus_->cost() : std::nullopt; }

  // Whether a probe of this role was heard.
  bool heard(lockstep_role role) const { return probes_.heard(role); }

 private:
  enum class Reading : std::uint8_t { now, to_the_end };
  void take(Reading reading);

  ProbeReader probes_;
  std::unique_ptr<Source> gpus_;
  Machine machine_;  // where there are no GPUs
  std::deque<Record> ready_;
  std::chrono::nanoseconds last_read_{};
  bool finished_ = false;
};

}  // namespace lockstep
