#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "commands/command_line.hpp"
#include "commands/version.hpp"
#include "export/metric_families.hpp"
#include "export/metrics_server.hpp"
#include "monitor/monitor_feed.hpp"
#include "runs/judgement.hpp"
#include "runs/observation.hpp"
#include "sources/prometheus/prometheus_source.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// an input that cannot be opened is told before anything is served
constexpr auto kServeWithin = 2s;
constexpr auto kLook = 100ms;  // at Ctrl-C and at the feed
constexpr auto kCloseWithin = 2s;
// nobody looks on; turns show in the driver's own power samples all the same
constexpr auto kReadEvery = 500ms;
// scrapes come every 15 s as a rule, and verdicts are about half a minute
constexpr double kJudgeEveryMs = 5000;

struct ExportOptions {
  std::string listen;
};

// Seconds since the newest readings came; below 0: none came yet, or they are a file's.
double reading_age_s(const Monitored& seen) {
  if (seen.history.empty() || !seen.live()) return -1;
  const double newest_ms =
      to_ms(std::chrono::nanoseconds(seen.machine.started_unix_ns)) + seen.history.newest_ms();
  return std::max(0.0, (to_ms(unix_now()) - newest_ms) / 1e3);
}

std::string why_not_ready(const MonitorFeed& feed) {
  if (const auto failure = feed.failure()) return failure->what;
  return feed.look([](const Monitored& seen) -> std::string {
    if (!seen.open) return "the driver has not answered yet";
    if (seen.history.empty()) return "no readings yet";
    if (seen.silence)
      return fmt::format("the driver has not answered '{}' for {}", seen.silence->call,
                         format_duration(seen.silence->since));
    if (seen.driver_gone) return "the driver is gone";
    if (!is_fresh(seen, reading_age_s(seen)))
      return fmt::format("the newest readings are {:.0f} s old", reading_age_s(seen));
    return {};
  });
}

Result<int> run_export(const RawOptions& raw, const ExportOptions& typed) {
  auto options = TRY(check(raw));
  if (looks_like_url(options.input))
    return usage_error(
        "export tells Prometheus of this machine; it does not tell it what it knows already",
        "lockstep diagnose URL reads a Prometheus server");
  auto address = TRY(parse_listen_address(typed.listen));
  watch_for_interrupts();

  SourceOptions how = options.source_options();
  if (!options.interval_given) how.interval = kReadEvery;
  how.attention = Attention::sparing;
  FeedOptions feed_options;
  feed_options.open = [input = options.input, how] { return open_source(input, how); };
  feed_options.interval = how.interval;
  feed_options.scene.judge = [](const Timeline& timeline) {
    return report_of(timeline, judge(timeline));
  };
  feed_options.scene.judge_every_ms = kJudgeEveryMs;
  MonitorFeed feed(std::move(feed_options));
  // A driver that hangs must not keep the process from ending.
  const auto leave = [&](Result<int> result) -> Result<int> {
    if (!feed.stop(kCloseWithin)) {
      std::fflush(nullptr);
      ::_exit(result ? *result : exit_code::kCannotMeasure);
    }
    return result;
  };
  feed.wait_until_open(kServeWithin);
  if (auto failure = feed.failure()) return leave(std::move(*failure));

  const std::string version = version_number();
  std::atomic<std::uint64_t> scrapes{0};
  MetricsPages pages;
  pages.metrics = [&] {
    ExporterFacts facts{version, ++scrapes, -1};
    return feed.look([&](const Monitored& seen) {
      facts.reading_age_s = reading_age_s(seen);
      return metrics_text(seen, facts);
    });
  };
  pages.why_not_ready = [&] { return why_not_ready(feed); };
  {
    auto server = MetricsServer::start(address, std::move(pages));
    if (!server) return leave(std::move(server).error());
    if (!options.quiet) {
      const std::string host =
          address.host.find(':') != std::string::npos ? "[" + address.host + "]" : address.host;
      fmt::print(stderr, "lockstep: serving http://{}:{}/metrics\n", host, server->port());
      if (address.host == "0.0.0.0" || address.host == "::")
        fmt::print(
            stderr,
            "lockstep: anybody who reaches this machine can read user names and ranks there\n");
    }
    const auto started = monotonic_now();
    while (interrupted_by() == 0 && !feed.failure() &&
           !(options.duration && monotonic_now() - started >= *options.duration))
      std::this_thread::sleep_for(kLook);
  }
  if (auto failure = feed.failure()) return leave(std::move(*failure));
  // SIGTERM is how a service is stopped
  return leave(interrupted_by() == SIGINT ? exit_code::kInterrupted : exit_code::kDone);
}

}  // namespace

Run configure_export(CLI::App& app, RawOptions& raw) {
  auto typed = std::make_shared<ExportOptions>();
  add_input_options(app, raw);
  app.add_option("--listen", typed->listen,
                 "where to serve: HOST:PORT; port 0 takes any that is free")
      ->type_name("ADDRESS")
      ->default_val("127.0.0.1:9417");
  add_common_options(app, raw);
  return [typed, &raw] { return run_export(raw, *typed); };
}

}  // namespace lockstep
