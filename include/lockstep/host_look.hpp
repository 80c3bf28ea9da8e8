// What the threads of a rank were doing at one moment, as the kernel shows it from outside.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class ThreadDoing : std::uint8_t {
  run,  // or could, and had no core
  read_file,
  write_file,
  socket,
  pipe,  // a queue between processes: a loader's worker without an order waits here
  sleep,
  lock,  // a futex: for another thread of its own
  gpu,   // in the driver
  child,
  other
};
// Their names in a recording.
inline constexpr std::array<std::string_view, 10> kDoingNames = {
    "run", "read_file", "write_file", "socket", "pipe", "sleep", "lock", "gpu", "child", "other"};

template <class T>
using PerDoing = std::array<T, kDoingNames.size()>;

constexpr std::size_t index_of(ThreadDoing doing) { return static_cast<std::size_t>(doing); }

struct HostLook {
  double ago_ms = 0;                     // before the list that holds it
  std::optional<ThreadDoing> main;       // nothing: it could not be read
  PerDoing<std::uint16_t> workers = {};  // how many loader workers did each

  bool operator==(const HostLook&) const = default;
};

struct CodeFrame {
  std::string function;
  std::string file;
  int line = 0;

  bool operator==(const CodeFrame&) const = default;
};

// Where the Python code of a rank's main thread was at one moment.
struct StackSample {
  double ago_ms = 0;              // before the list that holds it
  std::vector<CodeFrame> frames;  // innermost first
  // What the innermost line calls, of the few calls that say much: "time.sleep", "gc.collect",
  // ".item". Empty: none of them, or its file could not be read.
  std::string call;
  // Samples in a row that found it there, this one the first. When the others were taken is not
  // known.
  int seen = 1;

  bool operator==(const StackSample&) const = default;
};

}  // namespace lockstep
