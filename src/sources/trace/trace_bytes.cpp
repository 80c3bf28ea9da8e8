#include "sources/trace/trace_bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/file.hpp"

namespace lockstep {
namespace {

// fits a core's second-level cache together with what is made of it
constexpr std::size_t kBlock = 1U << 20U;
constexpr std::size_t kBlocksAhead = 4;
constexpr int kGzipOnly = 15 + 16;  // zlib's window, and no other wrapping than gzip's

bool is_gzip(const unsigned char* bytes, std::size_t size) {
  return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

ssize_t read_some(int file, char* into, std::size_t size) {
  ssize_t got = 0;
  do got = ::read(file, into, size);
  while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

Result<std::unique_ptr<TraceBytes>> TraceBytes::open(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_read(path, errno);
  struct stat facts{};
  if (::fstat(file, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    ::close(file);
    return cannot_read(path, EISDIR);
  }
  std::array<unsigned char, 2> start{};
  const bool compressed =
      ::pread(file, start.data(), start.size(), 0) == 2 && is_gzip(start.data(), start.size());
  return std::unique_ptr<TraceBytes>(new TraceBytes(file, compressed));
}

std::unique_ptr<TraceBytes> TraceBytes::over(std::string_view bytes, std::size_t block) {
  std::unique_ptr<TraceBytes> result(new TraceBytes());
  for (std::size_t at = 0; at < bytes.size(); at += block)
    result->blocks_.emplace_back(bytes.substr(at, block));
  return result;
}

TraceBytes::TraceBytes(int file, bool compressed)
    : file_(file), compressed_(compressed), thread_([this] { read_ahead(); }) {}

TraceBytes::~TraceBytes() {
  {
    const std::scoped_lock lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (file_ >= 0) ::close(file_);
}

std::string TraceBytes::next(std::string used) {
  std::unique_lock lock(mutex_);
  if (used.capacity() >= kBlock) used_.push_back(std::move(used));
  changed_.wait(lock, [this] { return !blocks_.empty() || at_end_; });
  if (blocks_.empty()) return {};
  std::string block = std::move(blocks_.front());
  blocks_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return block;
}

std::string TraceBytes::empty_block() {
  std::string block;
  {
    const std::scoped_lock lock(mutex_);
    if (!used_.empty()) {
      block = std::move(used_.back());
      used_.pop_back();
    }
  }
  block.resize(kBlock);
  return block;
}

bool TraceBytes::put(std::string block) {
  if (block.empty()) return true;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return blocks_.size() < kBlocksAhead || abandoned_; });
  if (abandoned_) return false;
  blocks_.push_back(std::move(block));
  lock.unlock();
  changed_.notify_all();
  return true;
}

void TraceBytes::read_ahead() {
  if (compressed_)
    read_compressed();
  else
    read_plain();
  {
    const std::scoped_lock lock(mutex_);
    at_end_ = true;
  }
  changed_.notify_all();
}

void TraceBytes::read_plain() {
  while (true) {
    std::string block = empty_block();
    const ssize_t got = read_some(file_, block.data(), block.size());
    if (got < 0) damaged_ = true;
    if (got <= 0) return;
    block.resize(static_cast<std::size_t>(got));
    if (!put(std::move(block))) return;
  }
}

void TraceBytes::read_compressed() {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) {
    damaged_ = true;
    return;
  }
  std::string input(256U << 10U, '\0');
  bool within = true;  // a member has begun and not ended
  bool ended = false;
  while (!ended) {
    std::string block = empty_block();
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    while (stream.avail_out > 0 && !ended) {
      if (stream.avail_in == 0) {
        const ssize_t got = read_some(file_, input.data(), input.size());
        if (got < 0) damaged_ = true;
        if (got <= 0) {
          cut_ = within;
          ended = true;
          break;
        }
        stream.next_in = reinterpret_cast<Bytef*>(input.data());
        stream.avail_in = static_cast<uInt>(got);
      }
      if (!within) {  // behind a whole member: another one, or padding
        if (*stream.next_in != 0x1f || inflateReset(&stream) != Z_OK) {
          ended = true;
          break;
        }
        within = true;
      }
      const int state = inflate(&stream, Z_NO_FLUSH);
      if (state == Z_STREAM_END) {
        within = false;
      } else if (state != Z_OK && state != Z_BUF_ERROR) {
        damaged_ = true;
        ended = true;
      }
    }
    block.resize(block.size() - stream.avail_out);
    if (!put(std::move(block))) break;
  }
  inflateEnd(&stream);
}

std::string first_bytes(const std::filesystem::path& path, std::size_t most) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  auto bytes = TraceBytes::open(path);
  if (!bytes) return {};
  std::string start;
  while (start.size() < most) {
    const std::string block = (*bytes)->next();
    if (block.empty()) break;
    start.append(block, 0, most - start.size());
  }
  return start;
}

}  // namespace lockstep
