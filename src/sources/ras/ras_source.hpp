// A live source, and NCCL's own count of its communicators where a process has NCCL loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/source.hpp"
#include "sources/ras/ras_watch.hpp"

namespace lockstep {

class RasSource : public Source {
 public:
  RasSource(std::unique_ptr<Source> inner, RasAddress address);
  ~RasSource() override;

  SourceKind kind() const override { return inner_->kind(); }
  std::string detail() const override { return inner_->detail(); }
  SourceFacts facts() const override { return inner_->facts(); }
  const Machine& machine() const override { return inner_->machine(); }
  Result<NextRecord> next(std::chrono::milliseconds wait) override;
  void finish() override { inner_->finish(); }
  void set_interval(std::chrono::nanoseconds interval) override { inner_->set_interval(interval); }
  std::vector<NotMeasured> not_measured() const override;
  std::optional<Silence> silence() const override { return inner_->silence(); }
  std::optional<double> cost() const override { return inner_->cost(); }
  std::optional<std::string> repair_note() const override { return inner_->repair_note(); }

 private:
  std::unique_ptr<Source> inner_;
  RasAddress address_;
  std::unique_ptr<RasWatch> watch_;  // from the first sign of NCCL on
  // torch loads NCCL for one GPU as well: only with ranks is its silence worth a word
  bool several_ranks_ = false;
};

}  // namespace lockstep
