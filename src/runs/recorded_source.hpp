// A source whose records also go to a file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/source.hpp"
#include "recording/writer.hpp"

namespace lockstep {

class RecordedSource : public Source {
 public:
  // `writer` must outlive the source. The first failure to write ends the writing; close() tells
  // it.
  RecordedSource(std::unique_ptr<Source> inner, RecordingWriter& writer)
      : inner_(std::move(inner)), writer_(writer) {}

  SourceKind kind() const override { return inner_->kind(); }
  std::string detail() const override { return inner_->detail(); }
  SourceFacts facts() const override { return inner_->facts(); }
  const Machine& machine() const override { return inner_->machine(); }
  Result<NextRecord> next(std::chrono::milliseconds wait) override {
    auto next = inner_->next(wait);
    if (next && written_)
      if (const auto* record = std::get_if<Record>(&*next)) written_ = writer_.write(*record);
    return next;
  }
  void finish() override { inner_->finish(); }
  void set_interval(std::chrono::nanoseconds interval) override { inner_->set_interval(interval); }
  std::vector<NotMeasured> not_measured() const override { return inner_->not_measured(); }
  std::optional<Silence> silence() const override { return inner_->silence(); }
  std::optional<double> cost() const override { return inner_->cost(); }
  std::optional<std::string> repair_note() const override { return inner_->repair_note(); }

  Status close() { return written_ ? writer_.close() : std::move(written_); }

 private:
  std::unique_ptr<Source> inner_;
  RecordingWriter& writer_;
  Status written_ = Done{};
};

}  // namespace lockstep
