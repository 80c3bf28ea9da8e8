// The bytes of a trace file in order, plain or gzip-compressed, in blocks of one size.
//
// A thread of its own reads and decompresses ahead of the reader, a few blocks and no more: memory
// does not grow with the file.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

class TraceBytes {
 public:
  static Result<std::unique_ptr<TraceBytes>> open(const std::filesystem::path& path);
  // Bytes that are in memory already, in blocks of that size.
  static std::unique_ptr<TraceBytes> over(std::string_view bytes, std::size_t block);
  ~TraceBytes();
  TraceBytes(const TraceBytes&) = delete;
  TraceBytes& operator=(const TraceBytes&) = delete;

  // The next bytes; empty at the end of the file. A block that is through is given back, to be
  // filled again: fresh memory costs as much as decompressing into it.
  std::string next(std::string used = {});

  // Once next() has given nothing: how the file ended.
  bool cut() const { return cut_; }
  bool damaged() const { return damaged_; }

 private:
  TraceBytes(int file, bool compressed);
  TraceBytes() : file_(-1), compressed_(false), at_end_(true) {}
  void read_ahead();
  void read_plain();
  void read_compressed();
  bool put(std::string block);
  std::string empty_block();

  const int file_;
  const bool compressed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> blocks_;  // guarded by mutex_, as the rest
  std::vector<std::string> used_;
  bool at_end_ = false;
  bool abandoned_ = false;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> damaged_ = false;
  std::thread thread_;
};

// The first bytes of a file, decompressed: enough to tell what it is. Empty: it cannot be read.
std::string first_bytes(const std::filesystem::path& path, std::size_t most);

}  // namespace lockstep
