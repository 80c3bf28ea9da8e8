// Reads a recording as a stream of records, in constant memory, however the file ended.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"
#include "recording/line_stream.hpp"

namespace lockstep {

// Whether the file starts with a recording's header, compressed or not.
bool looks_like_recording(const std::filesystem::path& path);
// The same of an open file, which can be read from its start afterwards: a pipe is opened but once.
bool looks_like_recording(LineStream& lines);

// What could not be used of a file. All zero for one that was closed properly.
struct ReadLosses {
  std::size_t cut_bytes = 0;         // after the last whole line
  std::size_t unreadable_lines = 0;  // whole lines that are no records
  bool damaged_compression = false;

  bool any() const { return cut_bytes > 0 || unreadable_lines > 0 || damaged_compression; }
};
// The losses as a sentence, for the user.
std::string describe(const ReadLosses& losses);

class RecordingReader {
 public:
  static Result<RecordingReader> open(const std::filesystem::path& path);
  static Result<RecordingReader> from(LineStream lines, const std::string& name);
  // For tests and fuzzers: the bytes of a file, under a name for messages.
  static Result<RecordingReader> over(std::string bytes, const std::string& name);

  RecordingReader(RecordingReader&&) noexcept;
  RecordingReader& operator=(RecordingReader&&) noexcept;
  ~RecordingReader();

  const Machine& machine() const { return machine_; }
  // The next record; nothing at the end. Lines that are no records are counted and passed over.
  std::optional<Record> next();
  ReadLosses losses() const;

 private:
  class Parser;
  RecordingReader(LineStream lines, std::unique_ptr<Parser> parser, Machine machine);

  LineStream lines_;
  std::unique_ptr<Parser> parser_;
  Machine machine_;
  std::size_t unreadable_lines_ = 0;
  std::size_t cut_bytes_ = 0;
  bool remainder_done_ = false;
};

}  // namespace lockstep
