// The terminal while the live screen has it: raw, on its other page, given back whatever happens.
//
// One session a process. Its signal handlers only write to a pipe or, for a crash, put the terminal
// right and die of the same signal.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/result.hpp"
#include "render/tui/monitor_screen.hpp"

namespace lockstep {

// Why there can be no live screen, in words; nothing: there can.
std::optional<std::string> why_no_screen();
// Whether the terminal writes UTF-8, by the locale it was started with.
bool terminal_has_utf8();

class TerminalSession {
 public:
  static Result<std::unique_ptr<TerminalSession>> open();
  ~TerminalSession();
  TerminalSession(const TerminalSession&) = delete;
  TerminalSession& operator=(const TerminalSession&) = delete;

  // Columns and rows; by $COLUMNS and $LINES, else 80 x 24, where the terminal does not know them.
  Size size() const;

  // What ended a wait.
  struct Woken {
    bool input = false;
    bool other = false;  // wake() was called, from any thread
    bool resized = false;
    bool stop_wanted = false;  // SIGTSTP
    bool went_on = false;      // SIGCONT: the terminal may have been used by others meanwhile
    bool gone = false;         // nobody is at the other end any more
  };
  Woken wait(std::chrono::milliseconds limit);
  void wake() const;  // from any thread

  // What was typed; empty when nothing was. The end of the terminal is `gone`.
  std::string read();
  // False: the terminal is gone.
  bool write(std::string_view bytes);

  // Gives the terminal back, stops as Ctrl-Z asks, and takes it again.
  void suspend();
  // Takes the terminal again after somebody else had it.
  void enter();
  void leave();

 private:
  TerminalSession() = default;

  int input_ = -1;
  bool own_input_ = false;  // /dev/tty, opened here
  int wake_read_ = -1;
  int wake_write_ = -1;
  bool gone_ = false;
};

}  // namespace lockstep
