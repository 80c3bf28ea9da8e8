#include "sources/probe/probe_source.hpp"

#include <thread>
#include <utility>

#include "base/clock.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// A ring of 4096 holds 0.2 s of 20,000 spans a second; a look costs two small reads a process.
constexpr auto kReadEvery = 50ms;

}  // namespace

ProbeSource::ProbeSource(std::filesystem::path folder, std::unique_ptr<Source> gpus,
                         ProbeReader::DeviceWork device_work)
    : probes_(std::move(folder), device_work), gpus_(std::move(gpus)) {
  machine_.started_unix_ns = unix_now().count();
  machine_.process_coverage = ProcessCoverage::none;
}

void ProbeSource::take(Reading reading) {
  last_read_ = monotonic_now();
  probes_.follow_all();
  const double offset_ms =
      to_ms(unix_now() - monotonic_now()) - static_cast<double>(machine().started_unix_ns) / 1e6;
  for (ProbeRecord& record : reading == Reading::now ? probes_.read() : probes_.read_to_the_end()) {
    ready_.push_back(on_timeline(std::move(record), offset_ms));
  }
}

Result<NextRecord> ProbeSource::next(std::chrono::milliseconds wait) {
  if (monotonic_now() - last_read_ >= kReadEvery && !finished_) take(Reading::now);
  if (!ready_.empty()) {
    Record record = std::move(ready_.front());
    ready_.pop_front();
    return NextRecord(std::move(record));
  }
  if (gpus_) return gpus_->next(std::min<std::chrono::milliseconds>(wait, kReadEvery));
  if (finished_) return NextRecord(EndOfInput{});
  std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(wait, kReadEvery));
  return NextRecord(NothingYet{});
}

void ProbeSource::finish() {
  take(Reading::to_the_end);
  finished_ = true;
  if (gpus_) gpus_->finish();
}

std::vector<NotMeasured> ProbeSource::not_measured() const {
  std::vector<NotMeasured> list = gpus_ ? gpus_->not_measured() : std::vector<NotMeasured>();
  if (probes_.dropped() > 0)
    list.push_back(
        {"steps",
         std::to_string(probes_.dropped()) +
             " records of probes were lost: overwritten before they were read, or never finished"});
  if (probes_.without_times() > 0)
    list.push_back({"gpu records", "CUPTI did not say when " +
                                       std::to_string(probes_.without_times()) +
                                       " of the kernels ran"});
  return list;
}

}  // namespace lockstep
