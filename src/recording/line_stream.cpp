#include "recording/line_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.hpp"
#include "recording/format.hpp"

namespace lockstep {

constexpr std::size_t kPadding = 64;  // simdjson reads up to this far past the end of a line
constexpr std::size_t kRead = 256U << 10U;
constexpr std::size_t kMostSkippedBytes = 4 * recording_format::kLongestLine;

// The decompressed bytes of a file or a string.
class LineStream::Bytes {
 public:
  explicit Bytes(int file) : file_(file) { start(); }
  explicit Bytes(std::string content) : content_(std::move(content)) { start(); }
  ~Bytes() {
    ZSTD_freeDStream(stream_);
    if (file_ >= 0) ::close(file_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  bool damaged() const { return damaged_; }

  std::size_t read(char* into, std::size_t room) {
    if (stream_ == nullptr) return read_raw(into, room);
    ZSTD_outBuffer out{into, room, 0};
    while (out.pos == 0 && !damaged_) {
      if (in_.pos == in_.size && !more_packed()) {
        damaged_ = damaged_ || inside_frame_;  // the file ends inside a frame
        break;
      }
      const std::size_t hint = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(hint) != 0) damaged_ = true;
      inside_frame_ = hint != 0;
    }
    return out.pos;
  }

 private:
  void start() {
    packed_.resize(ZSTD_DStreamInSize());
    const std::size_t got = read_raw(packed_.data(), packed_.size());
    in_ = {packed_.data(), got, 0};
    const auto& magic = recording_format::kZstdMagic;
    if (got >= magic.size() && std::memcmp(packed_.data(), magic.data(), magic.size()) == 0)
      stream_ = ZSTD_createDStream();
  }

  bool more_packed() {
    in_ = {packed_.data(), read_raw(packed_.data(), packed_.size()), 0};
    return in_.size > 0;
  }

  // Raw bytes; what start() looked at comes first when the file is not compressed.
  std::size_t read_raw(char* into, std::size_t room) {
    if (stream_ == nullptr && in_.pos < in_.size) {
      const std::size_t got = std::min(room, in_.size - in_.pos);
      std::memcpy(into, packed_.data() + in_.pos, got);
      in_.pos += got;
      return got;
    }
    if (file_ < 0) {
      const std::size_t got = std::min(room, content_.size() - content_at_);
      std::memcpy(into, content_.data() + content_at_, got);
      content_at_ += got;
      return got;
    }
    ssize_t got = 0;
    do {
      got = ::read(file_, into, room);
    } while (got < 0 && errno == EINTR);
    damaged_ = damaged_ || got < 0;
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }

  int file_ = -1;
  std::string content_;
  std::size_t content_at_ = 0;
  ZSTD_DStream* stream_ = nullptr;
  std::vector<char> packed_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool inside_frame_ = false;
  bool damaged_ = false;
};

Result<LineStream> LineStream::open(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_read(path, errno);
  struct stat facts{};
  if (::fstat(file, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    ::close(file);
    return cannot_read(path, EISDIR);
  }
  return LineStream(std::make_unique<Bytes>(file));
}

LineStream LineStream::over(std::string bytes) {
  return LineStream(std::make_unique<Bytes>(std::move(bytes)));
}

LineStream::LineStream(std::unique_ptr<Bytes> bytes)
    : bytes_(std::move(bytes)), buffer_(kRead + kPadding) {}
LineStream::LineStream(LineStream&&) noexcept = default;
LineStream& LineStream::operator=(LineStream&&) noexcept = default;
LineStream::~LineStream() = default;

std::optional<std::string_view> LineStream::next() {
  while (true) {
    const char* const newline =
        static_cast<const char*>(std::memchr(buffer_.data() + scanned_, '\n', end_ - scanned_));
    if (newline != nullptr) {
      const auto at = static_cast<std::size_t>(newline - buffer_.data());
      const std::string_view line(buffer_.data() + begin_, at - begin_);
      last_line_ = begin_;
      begin_ = scanned_ = at + 1;
      if (!std::exchange(skipping_, false)) return line;
      continue;
    }
    scanned_ = end_;
    // drop it as it comes, in constant memory
    if (end_ - begin_ > recording_format::kLongestLine) {
      overlong_ += skipping_ ? 0 : 1;
      skipping_ = true;
      begin_ = scanned_ = end_ = 0;
      skipped_bytes_ += recording_format::kLongestLine;
      if (skipped_bytes_ > kMostSkippedBytes) return std::nullopt;
    }
    if (!refill()) return std::nullopt;
  }
}

void LineStream::put_back() { begin_ = scanned_ = last_line_; }

bool LineStream::refill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kRead + kPadding) buffer_.resize(2 * buffer_.size() + kRead);
  const std::size_t got = bytes_->read(buffer_.data() + end_, buffer_.size() - kPadding - end_);
  end_ += got;
  std::memset(buffer_.data() + end_, 0, kPadding);
  return got > 0;
}

std::string_view LineStream::remainder() const {
  return skipping_ ? std::string_view() : std::string_view(buffer_.data() + begin_, end_ - begin_);
}
bool LineStream::damaged() const { return bytes_->damaged(); }
std::size_t LineStream::overlong_lines() const { return overlong_; }

}  // namespace lockstep
