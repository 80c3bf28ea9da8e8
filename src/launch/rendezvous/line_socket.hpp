// TCP between launchers: lines of text, read without waiting. A peer that vanishes is noticed
// within some 20 s.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

class LineSocket {
 public:
  LineSocket() = default;
  explicit LineSocket(int descriptor);
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;
  ~LineSocket();

  // Nothing: nobody listens there yet. An error: the name means nothing.
  static Result<std::optional<LineSocket>> connect(const std::string& host, int port);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  bool send(const std::string& line);
  std::optional<std::string> next();  // a whole line, once it is there
  bool ended() const { return ended_; }

 private:
  int descriptor_ = -1;
  std::string begun_;
  bool ended_ = false;
};

class ListeningSocket {
 public:
  ListeningSocket() = default;
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  ~ListeningSocket();

  static Result<ListeningSocket> on(int port);
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  std::optional<LineSocket> accept();

 private:
  int descriptor_ = -1;
};

}  // namespace lockstep
