// Writes a recording line by line. Whatever stops the process, all but the last line can be read
// again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

enum class Redaction : std::uint8_t {
  secrets,            // what the sources already did: tokens and passwords in command lines
  commands_and_host,  // commands and host names are dropped altogether
};

struct WriterOptions {
  Redaction redaction = Redaction::secrets;
};

// One line of the format, with its newline.
std::string header_line(const Machine& machine, const WriterOptions& options = {});
std::string record_line(const Record& record, const WriterOptions& options = {});

class RecordingWriter {
 public:
  // "-" is standard output; a name that ends in .zst is compressed. An earlier recording under that
  // name is kept beside it with the suffix .old; any other file is refused, never overwritten.
  static Result<RecordingWriter> create(const std::filesystem::path& path, const Machine& machine,
                                        WriterOptions options = {});
  RecordingWriter(RecordingWriter&&) noexcept;
  RecordingWriter& operator=(RecordingWriter&&) = delete;
  ~RecordingWriter();

  Status write(const Record& record);
  // Pushes what is buffered to the file, so that a crash from here on loses nothing written so far.
  Status flush();
  // Ends the file. Without it the file still reads, as one that was cut.
  Status close();

 private:
  class Output;
  RecordingWriter(std::unique_ptr<Output> output, WriterOptions options);

  std::unique_ptr<Output> output_;
  WriterOptions options_;
};

}  // namespace lockstep
