// An unnamed file for a child's lines.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace lockstep {

class OutputFile {
 public:
  OutputFile() : file_(::open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600)) {
    if (file_ >= 0) return;
    char name[] = "/tmp/lockstep-lines.XXXXXX";  // a file system that has no unnamed files
    file_ = ::mkostemp(name, O_CLOEXEC);
    if (file_ >= 0) ::unlink(name);
  }
  ~OutputFile() {
    if (file_ >= 0) ::close(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  int descriptor() const { return file_; }
  std::string content() const {
    std::string text;
    char piece[65536];
    for (off_t at = 0;; at = static_cast<off_t>(text.size())) {
      const ssize_t got = ::pread(file_, piece, sizeof piece, at);
      if (got <= 0) return text;
      text.append(piece, static_cast<std::size_t>(got));
    }
  }

 private:
  int file_;
};

}  // namespace lockstep
