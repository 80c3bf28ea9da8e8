// One line of a recording to one record. Fields it does not know are ignored: the format grows.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// What a line turned out to be. A whole JSON object of a kind this version does not know is neither
// a record nor damage.
struct ParsedLine {
  std::optional<Record> record;
  bool damaged = false;
};

// The text handed in must be readable for 64 bytes past its end (LineStream's lines are).
class RecordParser {
 public:
  RecordParser();
  ~RecordParser();
  RecordParser(const RecordParser&) = delete;
  RecordParser& operator=(const RecordParser&) = delete;

  Result<Machine> parse_header(std::string_view line);
  ParsedLine parse_record(std::string_view line);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace lockstep
