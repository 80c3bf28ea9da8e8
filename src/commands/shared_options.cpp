#include "commands/shared_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "base/file.hpp"
#include "base/text.hpp"
#include "commands/config_file.hpp"
#include "sources/prometheus/prometheus_source.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// below, the driver's own windows repeat
constexpr std::chrono::nanoseconds kShortestInterval = 10ms;
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
    return usage_error(
        fmt::format("--format {} is for diagnosis reports, not for this command", name),
        "use --format text or --format json");
  return usage_error(fmt::format("--format {} is unknown", printable(name)),
                     formats == Formats::all ? "use text, json, markdown or html"
                                             : "use --format text or --format json");
}

Result<Colors> checked_color(const std::string& word, bool to_file) {
  if (word == "always") return Colors::on;
  if (word == "never") return Colors::off;
  if (!word.empty() && word != "auto")
    return usage_error(fmt::format("--color {} is unknown", printable(word)),
                       "use auto, always or never");
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  const bool refused = no_color != nullptr && *no_color != '\0';
  return !to_file && !refused && !dumb && ::isatty(STDOUT_FILENO) == 1 ? Colors::on : Colors::off;
}

}  // namespace

void add_input_options(CLI::App& app, RawOptions& raw) {
  app.add_option("INPUT", raw.input,
                 "what to look at: nothing for this machine's GPUs, virtual:2 for two virtual "
                 "ones, a recording, a log, or a Prometheus server's address");
  app.add_option("--interval", raw.interval,
                 "time between readings, with its unit (default 100ms, at least 10ms)")
      ->type_name("DURATION");
  app.add_option("--duration", raw.duration, "how long to look, with its unit: 500ms, 10s, 5m")
      ->type_name("DURATION");
  app.add_option("--gpus", raw.gpus, "only these GPUs: 0,1 or 0-3")->type_name("LIST");
}

void add_prometheus_options(CLI::App& app, RawOptions& raw) {
  app.add_option(
         "--selector", raw.selector,
         "of a Prometheus server: label matchers, such as 'cluster=\"a\",Hostname=~\"node.*\"'")
      ->type_name("MATCHERS");
  app.add_option("--window", raw.window,
                 "of a Prometheus server: how far to look back (default 10m)")
      ->type_name("DURATION");
  app.add_option("--job-label", raw.job_label,
                 "of a Prometheus server: the label that names the job (default: hpc_job, "
                 "slurm_job_id, pod)")
      ->type_name("LABEL");
  app.add_option("--token-file", raw.token_file,
                 "of a Prometheus server: a file whose first line is the bearer token")
      ->type_name("FILE");
  app.add_option("--ca-file", raw.ca_file, "of a Prometheus server: certificates to trust")
      ->type_name("FILE");
  app.add_option("--timeout", raw.timeout,
                 "of a Prometheus server: how long to wait for an answer (default 30s)")
      ->type_name("DURATION");
}

void add_format_options(CLI::App& app, RawOptions& raw) {
  app.add_option("--format", raw.format, "text or json; reports of diagnose also markdown and html")
      ->type_name("FORMAT");
  app.add_flag("--json", raw.json, "short for --format json");
  app.add_option("--color", raw.color, "auto, always or never (NO_COLOR is honoured)")
      ->type_name("WHEN");
}

void add_output_options(CLI::App& app, RawOptions& raw) {
  app.add_option("-o,--output", raw.output,
                 "write the result to this file instead of standard output")
      ->type_name("FILE");
  add_format_options(app, raw);
}

void add_common_options(CLI::App& app, RawOptions& raw) {
  app.add_flag("--quiet", raw.quiet, "no words on standard error but errors");
  app.add_option("--config", raw.config,
                 "read defaults from this file instead of the user's config.json")
      ->type_name("FILE");
}

namespace {

bool is_label_name(const std::string& text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Result<PrometheusOptions> checked_prometheus(const RawOptions& raw) {
  const bool server = looks_like_url(raw.input);
  const std::pair<const char*, const std::string*> all[] = {
      {"--selector", &raw.selector},   {"--window", &raw.window},
      {"--job-label", &raw.job_label}, {"--token-file", &raw.token_file},
      {"--ca-file", &raw.ca_file},     {"--timeout", &raw.timeout}};
  for (const auto& [name, value] : all)
    if (!value->empty() && !server)
      return usage_error(fmt::format("{} is for a Prometheus server, and the input is none", name),
                         "give its address: lockstep diagnose http://HOST:9090");
  PrometheusOptions options;
  options.selector = raw.selector;
  options.job_label = raw.job_label;
  if (!raw.job_label.empty() && !is_label_name(raw.job_label))
    return usage_error(fmt::format("'{}' is no label", printable(raw.job_label)),
                       "a label has letters, digits and _: --job-label hpc_job");
  options.token_file = raw.token_file;
  options.ca_file = raw.ca_file;
  const auto take = [](const std::string& text, const char* name, std::chrono::nanoseconds most,
                       std::chrono::nanoseconds& into) -> Status {
    if (text.empty()) return Done{};
    auto length = TRY(parse_duration(text));
    if (length <= 0ns || length > most)
      return usage_error(fmt::format("{} {} is not between 1 ms and {}", name, printable(text),
                                     format_duration(most)),
                         fmt::format("leave it out, or give a time within: {} 1m", name));
    into = length;
    return Done{};
  };
  TRY(take(raw.window, "--window", std::chrono::hours(24 * 7), options.window));
  TRY(take(raw.timeout, "--timeout", std::chrono::hours(1), options.timeout));
  return options;
}

}  // namespace

Result<RunOptions> check(const RawOptions& typed, Formats formats) {
  RawOptions raw = typed;
  TRY(fill_from_config(raw));

  RunOptions options;
  options.input = raw.input;
  options.output = raw.output;
  options.quiet = raw.quiet;
  options.command = raw.command;
  if (!raw.interval.empty()) {
    auto interval = TRY(checked_interval(raw.interval));
    options.interval = interval;
    options.interval_given = true;
  }
  if (!raw.duration.empty()) {
    auto duration = TRY(parse_duration(raw.duration));
    if (duration <= 0ns)
      return usage_error("duration 0 measures nothing",
                         "give a longer one, such as --duration 10s");
    options.duration = duration;
  }
  if (!raw.gpus.empty()) {
    auto gpus = TRY(parse_index_list(raw.gpus));
    options.gpus = std::move(gpus);
  }
  if (!raw.pid.empty()) {
    const auto pid = parse_integer(raw.pid);
    if (!pid || *pid <= 0 || *pid > 0x7FFFFFFF)
      return usage_error(fmt::format("'{}' is not a process id", printable(raw.pid)),
                         "give a number: --pid 4242");
    options.pid = static_cast<int>(*pid);
  }
  auto prometheus = TRY(checked_prometheus(raw));
  options.prometheus = std::move(prometheus);
  auto format = TRY(checked_format(raw, formats));
  options.format = format;
  auto colors = TRY(checked_color(raw.color, !raw.output.empty()));
  options.colors = colors;
  return options;
}

}  // namespace lockstep
