#include "sources/live_source.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "base/file.hpp"

namespace lockstep {
namespace {

// A ring may hold steps from before the watch began.
constexpr double kOldestMs = -200;

}  // namespace

LiveSource::LiveSource(std::unique_ptr<Poller> poller, std::unique_ptr<ProcessDescriber> describer,
                       SourceKind kind, std::string detail)
    : poller_(std::move(poller)),
      describer_(std::move(describer)),
      probes_(runtime_folder()),
      kind_(kind),
      detail_(std::move(detail)) {}

Result<NextRecord> LiveSource::next(std::chrono::milliseconds wait) {
  if (ready_.empty()) {
    NextRecord next = next_reading(wait);
    if (auto* record = std::get_if<Record>(&next)) {
      if (auto* processes = std::get_if<ProcessTick>(&record->content)) {
        describer_->describe(*processes, record->t_ms);
        take_probes(record->t_ms);  // of processes that are about to be forgotten too
        std::vector<int> pids;
        for (const ProcessSample& process : *processes) pids.push_back(process.pid);
        probes_.follow(pids);
      }
      take_probes(record->t_ms);
      newest_ms_ = std::max(newest_ms_, record->t_ms);
      ready_.push_back(std::move(*record));
    } else {
      if (std::holds_alternative<EndOfInput>(next))
        take_probes(std::numeric_limits<double>::infinity());
      if (ready_.empty()) return next;
    }
  }
  Record record = std::move(ready_.front());
  ready_.pop_front();
  return NextRecord(std::move(record));
}

// While the poller has nothing, the threads of the ranks are looked at.
NextRecord LiveSource::next_reading(std::chrono::milliseconds wait) {
  const auto until = monotonic_now() + wait;
  while (true) {
    const auto pause = describer_->look(now_ms());
    const auto left = std::max<std::chrono::nanoseconds>(until - monotonic_now(), {});
    NextRecord next = poller_->next(std::chrono::ceil<std::chrono::milliseconds>(
        std::min<std::chrono::nanoseconds>(left, pause)));
    if (!std::holds_alternative<NothingYet>(next) || left <= std::chrono::nanoseconds(0))
      return next;
  }
}

// On the clock of the readings.
double LiveSource::now_ms() const {
  return to_ms(unix_now()) - static_cast<double>(machine().started_unix_ns) / 1e6;
}

// Steps that ended by then go before the reading of that moment; later ones wait for the next.
void LiveSource::take_probes(double until_ms) {
  if (!probes_.any()) return;
  const double offset_ms =
      to_ms(unix_now() - monotonic_now()) - static_cast<double>(machine().started_unix_ns) / 1e6;
  for (ProbeRecord& record : probes_.read()) {
    Record of_timeline = on_timeline(std::move(record), offset_ms);
    if (of_timeline.t_ms >= kOldestMs) early_.push_back(std::move(of_timeline));
  }
  while (!early_.empty() && early_.front().t_ms <= until_ms) {
    ready_.push_back(std::move(early_.front()));
    early_.pop_front();
  }
}

std::vector<NotMeasured> LiveSource::not_measured() const {
  std::vector<NotMeasured> list = poller_->not_measured();
  for (NotMeasured& entry : describer_->not_measured()) list.push_back(std::move(entry));
  if (probes_.dropped() > 0)
    list.push_back({"steps", std::to_string(probes_.dropped()) +
                                 " step marks were overwritten before they were read"});
  return list;
}

}  // namespace lockstep
