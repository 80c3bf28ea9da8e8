#include "monitor/side_recording.hpp"

#include <fmt/format.h>

#include <utility>

namespace lockstep {
namespace {

// what is kept for a recording that may be wished for
constexpr double kPastMs = 120'000;
// and never more than this: 16 GPUs at 10 Hz fill it in two minutes
constexpr std::size_t kPastBytes = 6U * 1024 * 1024;
constexpr double kFlushEveryMs = 1000;  // the most that a crash can cost

// Roughly what a record takes in memory.
std::size_t bytes_of(const Record& record) {
  std::size_t bytes = sizeof(Record);
  if (const auto* tick = std::get_if<GpuTick>(&record.content)) {
    bytes += tick->size() * sizeof(GpuSample);
    for (const GpuSample& sample : *tick)
      if (const auto samples = sample.power_samples.value())
        bytes += samples->milliwatts.size() * sizeof(std::uint32_t);
  } else if (const auto* processes = std::get_if<ProcessTick>(&record.content)) {
    bytes += processes->size() * 1500;  // seen: command, environment and libraries of a rank
  }
  return bytes;
}

}  // namespace

Status SideRecording::take(const Record& record) {
  past_bytes_ += bytes_of(record);
  past_.push_back(record);
  while (past_.size() > 1 &&
         (past_bytes_ > kPastBytes || record.t_ms - past_.front().t_ms > kPastMs)) {
    past_bytes_ -= bytes_of(past_.front());
    past_.pop_front();
  }
  return writer_ ? write(record) : Status(Done{});
}

Status SideRecording::write(const Record& record) {
  Status status = writer_->write(record);
  if (status && record.t_ms - flushed_ms_ >= kFlushEveryMs) {
    flushed_ms_ = record.t_ms;
    status = writer_->flush();
  }
  if (!status) {
    writer_.reset();
    ongoing_.reset();
    return status;
  }
  ++ongoing_->records;
  return status;
}

Status SideRecording::start(const std::string& path, const Machine& machine) {
  auto writer = TRY(RecordingWriter::create(path, machine));
  writer_.emplace(std::move(writer));
  ongoing_ = {path, past_.empty() ? 0 : past_.front().t_ms, 0};
  for (const Record& record : past_)
    if (Status status = write(record); !status) return status;
  return Done{};
}

Status SideRecording::end() {
  if (!writer_) return Done{};
  Status status = writer_->close();
  writer_.reset();
  ongoing_.reset();
  return status;
}

}  // namespace lockstep
