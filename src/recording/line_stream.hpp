// Reads a file as lines, plain or zstd-compressed, in constant memory.
//
// One thread. The line handed out stays valid until the next call and is followed by the zero
// padding that simdjson needs, so that no line is copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

class LineStream {
 public:
  static Result<LineStream> open(const std::filesystem::path& path);
  // The bytes of a file that are in memory already.
  static LineStream over(std::string bytes);

  LineStream(LineStream&&) noexcept;
  LineStream& operator=(LineStream&&) noexcept;
  ~LineStream();

  // The next whole line without its newline; nothing at the end of the input.
  std::optional<std::string_view> next();

  // The line that next() has just given is given again.
  void put_back();

  // What stands after the last newline, once next() has returned nothing: a line that was cut, or a
  // last line whose newline is missing.
  std::string_view remainder() const;
  // Set when the compressed stream broke off or was damaged.
  bool damaged() const;
  // Lines longer than any recording's, which were passed over. After a few of them next() gives up:
  // such input has no end worth waiting for (/dev/zero).
  std::size_t overlong_lines() const;

 private:
  class Bytes;
  explicit LineStream(std::unique_ptr<Bytes> bytes);
  bool refill();

  std::unique_ptr<Bytes> bytes_;
  std::vector<char> buffer_;  // [begin_, end_) holds what was read and not yet handed out
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t scanned_ = 0;    // no newline in [begin_, scanned_)
  std::size_t last_line_ = 0;  // where the line given last begins
  bool skipping_ = false;      // inside an overlong line
  std::size_t overlong_ = 0;
  std::size_t skipped_bytes_ = 0;
};

}  // namespace lockstep
