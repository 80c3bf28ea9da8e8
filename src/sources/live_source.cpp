#include "sources/live_source.hpp"

#include <utility>

namespace lockstep {

LiveSource::LiveSource(std::unique_ptr<Poller> poller, std::unique_ptr<ProcessDescriber> describer, SourceKind kind,
                       std::string detail)
    : poller_(std::move(poller)), describer_(std::move(describer)), kind_(kind), detail_(std::move(detail)) {}

Result<NextRecord> LiveSource::next(std::chrono::milliseconds wait) {
  NextRecord next = poller_->next(wait);
  if (auto* record = std::get_if<Record>(&next))
    if (auto* processes = std::get_if<ProcessTick>(&record->content)) describer_->describe(*processes, record->t_ms);
  return next;
}

std::vector<NotMeasured> LiveSource::not_measured() const {
  std::vector<NotMeasured> list = poller_->not_measured();
  for (NotMeasured& entry : describer_->not_measured()) list.push_back(std::move(entry));
  return list;
}

}  // namespace lockstep
