#include "recording/reader.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"
#include "recording/format.hpp"
#include "recording/record_parser.hpp"

namespace lockstep {

class RecordingReader::Parser : public RecordParser {};

bool looks_like_recording(const std::filesystem::path& path) {
  auto lines = LineStream::open(path);
  return lines && looks_like_recording(*lines);
}

bool looks_like_recording(LineStream& lines) {
  // An object has no order: tools that sort keys put that of the format behind all GPUs.
  constexpr std::size_t kLongestHeader = 1U << 20U;
  const auto first = lines.next();
  const std::string_view start =
      trim((first ? *first : lines.remainder()).substr(0, kLongestHeader));
  const bool found =
      start.starts_with('{') &&
      start.find(fmt::format("\"{}\"", recording_format::kMagicKey)) != std::string_view::npos;
  if (first) lines.put_back();
  return found;
}

std::string describe(const ReadLosses& losses) {
  std::vector<std::string> parts;
  if (losses.damaged_compression) parts.emplace_back("the compressed stream breaks off");
  if (losses.cut_bytes > 0)
    parts.push_back(fmt::format("the last line was cut ({} bytes lost)", losses.cut_bytes));
  if (losses.unreadable_lines > 0)
    parts.push_back(fmt::format("{} line{} could not be read", losses.unreadable_lines,
                                losses.unreadable_lines == 1 ? "" : "s"));
  return join(parts, "; ");
}

Result<RecordingReader> RecordingReader::open(const std::filesystem::path& path) {
  auto lines = TRY(LineStream::open(path));
  return from(std::move(lines), path.string());
}

Result<RecordingReader> RecordingReader::over(std::string bytes, const std::string& name) {
  return from(LineStream::over(std::move(bytes)), name);
}

Result<RecordingReader> RecordingReader::from(LineStream lines, const std::string& name) {
  auto first = lines.next();
  if (!first && lines.remainder().empty())
    return Error{fmt::format("{} is empty", printable(name)),
                 "record again: lockstep record -o FILE --duration 10s"};
  auto parser = std::make_unique<Parser>();
  auto header = parser->parse_header(first ? *first : lines.remainder());
  if (!header) {
    Error error = std::move(header).error();
    error.what = fmt::format("{}: {}", printable(name), error.what);
    return error;
  }
  RecordingReader reader(std::move(lines), std::move(parser), std::move(*header));
  reader.remainder_done_ = !first;  // the header was the remainder
  return reader;
}

RecordingReader::RecordingReader(LineStream lines, std::unique_ptr<Parser> parser, Machine machine)
    : lines_(std::move(lines)), parser_(std::move(parser)), machine_(std::move(machine)) {}
RecordingReader::RecordingReader(RecordingReader&&) noexcept = default;
RecordingReader& RecordingReader::operator=(RecordingReader&&) noexcept = default;
RecordingReader::~RecordingReader() = default;

std::optional<Record> RecordingReader::next() {
  while (const auto line = lines_.next()) {
    if (trim(*line).empty()) continue;
    ParsedLine parsed = parser_->parse_record(*line);
    if (parsed.record) return std::move(parsed.record);
    unreadable_lines_ += parsed.damaged ? 1 : 0;
  }
  if (remainder_done_) return std::nullopt;
  remainder_done_ = true;
  // A last line without its newline counts when it is whole: closing braces prove that.
  const std::string_view rest = trim(lines_.remainder());
  if (rest.empty()) return std::nullopt;
  ParsedLine parsed = parser_->parse_record(lines_.remainder());
  if (parsed.damaged) cut_bytes_ = lines_.remainder().size();
  return std::move(parsed.record);
}

ReadLosses RecordingReader::losses() const {
  return {cut_bytes_, unreadable_lines_ + lines_.overlong_lines(), lines_.damaged()};
}

}  // namespace lockstep
