// A recording as a source: its records in order, as fast as they are asked for.
#pragma once

#include <string>
#include <vector>

#include "lockstep/source.hpp"
#include "recording/reader.hpp"

namespace lockstep {

class ReplaySource : public Source {
 public:
  // `gpus` empty: all.
  ReplaySource(RecordingReader reader, std::string name, std::vector<int> gpus);

  SourceKind kind() const override { return SourceKind::recording; }
  std::string detail() const override { return name_; }
  SourceFacts facts() const override { return {}; }
  const Machine& machine() const override { return machine_; }
  Result<NextRecord> next(std::chrono::milliseconds wait) override;
  std::vector<NotMeasured> not_measured() const override { return {}; }
  std::optional<std::string> repair_note() const override;

 private:
  bool wanted(int gpu) const;
  void keep_wanted(Record& record) const;

  RecordingReader reader_;
  std::string name_;
  std::vector<int> gpus_;
  Machine machine_;
};

}  // namespace lockstep
