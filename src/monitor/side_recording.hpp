// A recording that is begun while watching: it starts with the past that is still in memory.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"
#include "monitor/monitored.hpp"
#include "recording/writer.hpp"

namespace lockstep {

class SideRecording {
 public:
  // Every record passes here, recorded or not. An error ends the recording; what was written stays.
  Status take(const Record& record);
  Status start(const std::string& path, const Machine& machine);
  Status end();

  const std::optional<OngoingRecording>& ongoing() const { return ongoing_; }

 private:
  Status write(const Record& record);

  std::deque<Record> past_;
  std::size_t past_bytes_ = 0;
  std::optional<RecordingWriter> writer_;
  std::optional<OngoingRecording> ongoing_;
  double flushed_ms_ = 0;
};

}  // namespace lockstep
