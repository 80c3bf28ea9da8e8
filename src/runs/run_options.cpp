#include "runs/run_options.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {

SourceOptions RunOptions::source_options() const {
  SourceOptions options{interval, std::chrono::seconds(2), gpus, Attention::usual, prometheus};
  // A server remembers a window; whoever names a duration wants what comes from now on too.
  if (duration) options.prometheus.after = AfterWindow::follow;
  return options;
}

Status put_result(const RunOptions& options, const std::string& text) {
  if (options.writes_to_file()) return write_file_atomically(options.output, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return Error{"the result could not be written to standard output",
                 "is the disk full? -o FILE writes it elsewhere"};
  return Done{};
}

void tell(const RunOptions& options, const std::string& sentence) {
  if (!options.quiet) say(fmt::format("lockstep: {}\n", sentence));
}

std::optional<std::size_t> terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0)
    return std::nullopt;
  return size.ws_col;
}

}  // namespace lockstep
