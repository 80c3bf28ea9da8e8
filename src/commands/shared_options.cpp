#include "commands/shared_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/config_file.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kShortestInterval = 10ms;  // below, the driver's own windows repeat
constexpr std::chrono::nanoseconds kLongestInterval = 1h;

Result<std::chrono::nanoseconds> checked_interval(const std::string& text) {
  auto interval = parse_duration(text);
  if (!interval) return interval;
  if (*interval < kShortestInterval || *interval > kLongestInterval)
    return usage_error(fmt::format("interval {} is not between 10 ms and 1 h", printable(text)),
                       "the default is --interval 100ms");
  return interval;
}

Result<Format> checked_format(const RawOptions& raw, Formats formats) {
  const std::string name = raw.json ? "json" : raw.format.empty() ? "text" : raw.format;
  if (name == "text") return Format::text;
  if (name == "json") return Format::json;
  if (formats == Formats::all && name == "markdown") return Format::markdown;
  if (formats == Formats::all && name == "html") return Format::html;
  if (name == "markdown" || name == "html")
    return usage_error(fmt::format("--format {} is for diagnosis reports, not for this command", name),
                       "use --format text or --format json");
  return usage_error(fmt::format("--format {} is unknown", printable(name)),
                     formats == Formats::all ? "use text, json, markdown or html" : "use --format text or --format json");
}

Result<Colors> checked_color(const std::string& word, bool to_file) {
  if (word == "always") return Colors::on;
  if (word == "never") return Colors::off;
  if (!word.empty() && word != "auto")
    return usage_error(fmt::format("--color {} is unknown", printable(word)), "use auto, always or never");
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool refused = no_color != nullptr && *no_color != '\0';
  return !to_file && !refused && !dumb && ::isatty(STDOUT_FILENO) == 1 ? Colors::on : Colors::off;
}

}  // namespace

void add_input_options(CLI::App& app, RawOptions& raw) {
  app.add_option("INPUT", raw.input,
                 "what to look at: nothing for this machine's GPUs, virtual:2 for two virtual ones, or a recording");
  app.add_option("--interval", raw.interval, "time between readings, with its unit (default 100ms, at least 10ms)")
      ->type_name("DURATION");
  app.add_option("--duration", raw.duration, "how long to look, with its unit: 500ms, 10s, 5m")->type_name("DURATION");
  app.add_option("--gpus", raw.gpus, "only these GPUs: 0,1 or 0-3")->type_name("LIST");
}

void add_format_options(CLI::App& app, RawOptions& raw) {
  app.add_option("--format", raw.format, "text or json; reports of diagnose also markdown and html")->type_name("FORMAT");
  app.add_flag("--json", raw.json, "short for --format json");
  app.add_option("--color", raw.color, "auto, always or never (NO_COLOR is honoured)")->type_name("WHEN");
}

void add_output_options(CLI::App& app, RawOptions& raw) {
  app.add_option("-o,--output", raw.output, "write the result to this file instead of standard output")->type_name("FILE");
  add_format_options(app, raw);
}

void add_common_options(CLI::App& app, RawOptions& raw) {
  app.add_flag("--quiet", raw.quiet, "no words on standard error but errors");
  app.add_option("--config", raw.config, "read defaults from this file instead of the user's config.json")->type_name("FILE");
}

Result<SharedOptions> check(const RawOptions& typed, Formats formats) {
  RawOptions raw = typed;
  if (Status status = fill_from_config(raw); !status) return std::move(status).error();

  SharedOptions options;
  options.input = raw.input;
  options.output = raw.output;
  options.quiet = raw.quiet;
  options.command = raw.command;
  if (!raw.interval.empty()) {
    auto interval = checked_interval(raw.interval);
    if (!interval) return std::move(interval).error();
    options.interval = *interval;
  }
  if (!raw.duration.empty()) {
    auto duration = parse_duration(raw.duration);
    if (!duration) return std::move(duration).error();
    if (*duration <= 0ns) return usage_error("duration 0 measures nothing", "give a longer one, such as --duration 10s");
    options.duration = *duration;
  }
  if (!raw.gpus.empty()) {
    auto gpus = parse_index_list(raw.gpus);
    if (!gpus) return std::move(gpus).error();
    options.gpus = std::move(*gpus);
  }
  if (!raw.pid.empty()) {
    const auto pid = parse_integer(raw.pid);
    if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF)
      return usage_error(fmt::format("'{}' is not a process id", printable(raw.pid)), "give a number: --pid 4242");
    options.pid = static_cast<int>(*pid);
  }
  auto format = checked_format(raw, formats);
  if (!format) return std::move(format).error();
  options.format = *format;
  auto colors = checked_color(raw.color, !raw.output.empty());
  if (!colors) return std::move(colors).error();
  options.colors = *colors;
  return options;
}

Status put_result(const SharedOptions& options, const std::string& text) {
  if (!options.output.empty() && options.output != "-") return write_file_atomically(options.output, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return Error{"the result could not be written to standard output", "is the disk full? -o FILE writes it elsewhere"};
  return Done{};
}

}  // namespace lockstep
