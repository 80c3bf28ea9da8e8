#include "render/tui/terminal/terminal_session.hpp"

#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/interrupt.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

// The other page, no cursor, no wrapping at the edge, clicks and wheel with their places as
// numbers.
constexpr std::string_view kEnter =
    "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h\x1b[0m\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?1006l\x1b[?1000l\x1b[?7h\x1b[0m\x1b[?25h\x1b[?1049l";

constexpr std::array kFatal = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGQUIT, SIGTRAP};

// What the handlers touch: set before they are installed, plain or lock-free.
termios as_found{};
std::atomic<int> found_on = -1;  // the terminal whose settings `as_found` are; -1: not taken
std::atomic<int> signal_pipe = -1;

enum class Note : char { wake = 'w', resize = 'r', stop = 's', go_on = 'c' };

void note(Note what) {
  const int saved = errno;
  const char letter = static_cast<char>(what);
  // full: it will be looked at anyway
  [[maybe_unused]] const auto ignored = ::write(signal_pipe, &letter, 1);
  errno = saved;
}

void on_resize(int) { note(Note::resize); }
void on_stop(int) { note(Note::stop); }
void on_go_on(int) { note(Note::go_on); }

// Safe in a signal handler: two system calls. The settings first: a write may block where the other
// end is slow.
void put_right() {
  const int terminal = found_on.exchange(-1);
  if (terminal < 0) return;
  ::tcsetattr(terminal, TCSANOW, &as_found);
  [[maybe_unused]] const auto ignored = ::write(STDOUT_FILENO, kLeave.data(), kLeave.size());
}

void on_crash(int signal) {
  put_right();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

int number_in(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  const auto number = text != nullptr ? parse_integer(text) : std::nullopt;
  return number && *number > 0 && *number < 10'000 ? static_cast<int>(*number) : otherwise;
}

}  // namespace

std::optional<std::string> why_no_screen() {
  if (::isatty(STDOUT_FILENO) != 1) return "standard output is not a terminal";
  const char* const term = std::getenv("TERM");
  if (term == nullptr || *term == '\0') return "TERM is not set";
  if (std::strcmp(term, "dumb") == 0) return "TERM is dumb: this terminal cannot place text";
  if (::isatty(STDIN_FILENO) != 1) {
    const int tty = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (tty < 0) return "standard input is not a terminal, so no key could be pressed";
    ::close(tty);
  }
  return std::nullopt;
}

bool terminal_has_utf8() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale != nullptr) {
    const bool utf8 = std::strcmp(::nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    ::freelocale(locale);
    if (utf8) return true;
  }
  // The locale may not be installed here and still be what the terminal at the other end of ssh
  // has.
  for (const char* const variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view name = value;
    return name.ends_with("UTF-8") || name.ends_with("utf8") || name.ends_with("utf-8");
  }
  return false;
}

Result<std::unique_ptr<TerminalSession>> TerminalSession::open() {
  std::unique_ptr<TerminalSession> session(new TerminalSession);
  session->input_ = STDIN_FILENO;
  if (::isatty(STDIN_FILENO) != 1) {
    session->input_ = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
    session->own_input_ = true;
  }
  std::array<int, 2> ends{};
  if (session->input_ < 0 || ::tcgetattr(session->input_, &as_found) != 0 ||
      ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return Error{std::string("cannot take the terminal: ") + std::strerror(errno),
                 "print once instead: lockstep monitor --once"};
  session->wake_read_ = ends[0];
  session->wake_write_ = ends[1];
  signal_pipe = ends[1];
  before_forced_exit(put_right);
  wake_on_interrupt(ends[1]);
  handle(SIGWINCH, on_resize);
  handle(SIGTSTP, on_stop);
  handle(SIGCONT, on_go_on);
  for (const int signal : kFatal) handle(signal, on_crash);
  std::signal(SIGPIPE, SIG_IGN);
  session->enter();
  return session;
}

TerminalSession::~TerminalSession() {
  leave();
  for (const int signal : {SIGWINCH, SIGTSTP, SIGCONT}) std::signal(signal, SIG_DFL);
  for (const int signal : kFatal) std::signal(signal, SIG_DFL);
  before_forced_exit(nullptr);
  wake_on_interrupt(-1);
  signal_pipe = -1;
  if (wake_read_ >= 0) ::close(wake_read_);
  if (wake_write_ >= 0) ::close(wake_write_);
  if (own_input_ && input_ >= 0) ::close(input_);
}

// Also where it is ours already: after SIGCONT nobody knows what others did with it meanwhile.
void TerminalSession::enter() {
  termios raw = as_found;
  raw.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
  raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN);
  raw.c_lflag |= ISIG;  // Ctrl-C and Ctrl-Z are signals: they work even when the screen does not
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  found_on = input_;
  // stopped in the background, and let go on
  while (::tcsetattr(input_, TCSANOW, &raw) != 0 && errno == EINTR) {
  }
  write(kEnter);
}

void TerminalSession::leave() { put_right(); }

void TerminalSession::suspend() {
  leave();
  std::signal(SIGTSTP, SIG_DFL);
  ::raise(SIGTSTP);  // here the process stands still, until SIGCONT
  handle(SIGTSTP, on_stop);
  enter();
}

Size TerminalSession::size() const {
  winsize known{};
  const bool told =
      ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &known) == 0 && known.ws_col > 0 && known.ws_row > 0;
  if (told) return {known.ws_col, known.ws_row};
  return {number_in("COLUMNS", 80), number_in("LINES", 24)};
}

TerminalSession::Woken TerminalSession::wait(std::chrono::milliseconds limit) {
  Woken woken;
  std::array<pollfd, 2> watched = {{{input_, POLLIN, 0}, {wake_read_, POLLIN, 0}}};
  if (::poll(watched.data(), watched.size(),
             static_cast<int>(std::max<std::int64_t>(limit.count(), 0))) < 0)
    return woken;
  woken.input = (watched[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0;
  woken.gone = gone_ || (watched[0].revents & (POLLERR | POLLNVAL)) != 0 ||
               ((watched[0].revents & POLLHUP) != 0 && (watched[0].revents & POLLIN) == 0);
  std::array<char, 256> letters{};
  for (ssize_t count = ::read(wake_read_, letters.data(), letters.size()); count > 0;
       count = ::read(wake_read_, letters.data(), letters.size()))
    for (ssize_t i = 0; i < count; ++i) {
      const auto what = static_cast<Note>(letters[static_cast<std::size_t>(i)]);
      woken.other = woken.other || what == Note::wake;
      woken.resized = woken.resized || what == Note::resize;
      woken.stop_wanted = woken.stop_wanted || what == Note::stop;
      woken.went_on = woken.went_on || what == Note::go_on;
    }
  return woken;
}

void TerminalSession::wake() const {
  const char letter = static_cast<char>(Note::wake);
  [[maybe_unused]] const auto ignored = ::write(wake_write_, &letter, 1);
}

std::string TerminalSession::read() {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::read(input_, bytes.data(), bytes.size());
  if (count < 0 && errno != EINTR && errno != EAGAIN) gone_ = true;
  return count > 0 ? std::string(bytes.data(), static_cast<std::size_t>(count)) : std::string();
}

bool TerminalSession::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd writable{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&writable, 1, 100);
    } else if (errno != EINTR) {
      gone_ = true;
      return false;
    }
    if (interrupted_by() != 0 && count <= 0) return false;
  }
  return true;
}

}  // namespace lockstep
