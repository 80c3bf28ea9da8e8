#include "sources/prometheus/prometheus_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "sources/prometheus/fleet_log.hpp"
#include "sources/prometheus/http_client.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kAskEvery = 5s;  // while following; scrapes are 15 to 60 s apart as a rule
constexpr int kAskEmptyEvery = 4;
constexpr std::size_t kMostReadings = 4'000'000;  // some 2 GB: 1,000 GPUs for 16 hours at 15 s
constexpr double kOverlap = 3;  // scrapes that are asked for again: some come late

// {cluster="a"} and cluster="a" are the same; an empty one asks for all.
std::string matchers(const std::string& selector) {
  std::string_view text = trim(selector);
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  return std::string(trim(text));
}

std::string promql_duration(std::chrono::nanoseconds length) {
  return fmt::format("{}ms",
                     std::max<std::int64_t>(
                         1, std::chrono::duration_cast<std::chrono::milliseconds>(length).count()));
}

class PrometheusSource : public Source {
 public:
  PrometheusSource(HttpClient client, PrometheusOptions options)
      : client_(std::move(client)), options_(std::move(options)), fleet_(options_.job_label) {}

  Status read_window(const std::vector<int>& gpus) {
    ask_time();
    // Utilization first: exporters that have none of it are not asked for the rest.
    std::set<Exporter> there;
    for (const KnownMetric& metric : known_metrics()) {
      if (metric.use != MetricUse::busy) continue;
      auto found = TRY(ask(metric, options_.window));
      if (found) there.insert(metric.exporter);
    }
    if (there.empty())
      return Error{
          fmt::format("{} knows no GPU metrics{} in the last {}", printable(client_.base()),
                      options_.selector.empty()
                          ? ""
                          : fmt::format(" with {{{}}}", printable(matchers(options_.selector))),
                      format_duration(options_.window)),
          "it must scrape `lockstep export`, dcgm-exporter or nvitop-exporter; try a longer "
          "--window or another --selector"};
    for (const KnownMetric& metric : known_metrics())
      if (metric.use != MetricUse::busy && there.contains(metric.exporter)) {
        auto found = TRY(ask(metric, options_.window));
        (found ? asked_ : empty_).push_back(&metric);
      }
    for (const KnownMetric& metric : known_metrics())
      if (metric.use == MetricUse::busy && there.contains(metric.exporter))
        asked_.push_back(&metric);
    machine_ = fleet_.machine();
    for (const int wanted : gpus)
      if (wanted >= static_cast<int>(machine_.gpus.size()))
        return usage_error(
            fmt::format("GPU {} of --gpus is not there: {} are", wanted, machine_.gpus.size()),
            "leave --gpus out to see which are");
    wanted_ = std::set<int>(gpus.begin(), gpus.end());
    if (!wanted_.empty())
      std::erase_if(machine_.gpus,
                    [&](const GpuInfo& gpu) { return !wanted_.contains(gpu.index); });
    take();
    asked_at_ = monotonic_now();
    return Done{};
  }

  SourceKind kind() const override { return SourceKind::prometheus; }
  std::string detail() const override {
    std::vector<std::string> names;
    for (const Exporter exporter : fleet_.exporters())
      names.emplace_back(kExporterNames[static_cast<std::size_t>(exporter)]);
    return fmt::format("{} ({})", client_.base(), join(names, ", "));
  }
  SourceFacts facts() const override { return {.live = options_.after == AfterWindow::follow}; }
  const Machine& machine() const override { return machine_; }

  Result<NextRecord> next(std::chrono::milliseconds wait) override {
    if (pending_.empty() && options_.after == AfterWindow::follow) {
      if (monotonic_now() - asked_at_ < kAskEvery) {
        std::this_thread::sleep_for(
            std::min<std::chrono::nanoseconds>(wait, kAskEvery - (monotonic_now() - asked_at_)));
        return NextRecord(NothingYet{});
      }
      ask_for_news();
    }
    if (pending_.empty())
      return options_.after == AfterWindow::follow ? NextRecord(NothingYet{})
                                                   : NextRecord(EndOfInput{});
    Record record = std::move(pending_.front());
    pending_.pop_front();
    return NextRecord(std::move(record));
  }

  std::vector<NotMeasured> not_measured() const override {
    std::vector<NotMeasured> list;
    const double seconds = std::max(1.0, std::round(fleet_.spacing_ms().value_or(15'000) / 1000));
    list.push_back(
        {"between scrapes",
         fmt::format("readings are {:.0f} s apart: steps, and turns shorter than {:.0f} s, cannot "
                     "be seen; run `lockstep diagnose` on one of the machines for those",
                     seconds, 2 * seconds)});
    const bool any_job =
        std::ranges::any_of(machine_.gpus, [](const GpuInfo& gpu) { return gpu.job.has_value(); });
    if (!any_job)
      list.push_back({"jobs",
                      "no label says which job a GPU was given to: GPUs of one machine were joined "
                      "by likeness, machines not at all (--job-label NAME names one)"});
    list.push_back({"processes", "a scrape does not tell them"});
    list.push_back(
        {"steps", "a scrape does not tell where the time of a step goes: lockstep profile does"});
    return list;
  }
  std::optional<Silence> silence() const override { return silence_; }
  std::optional<std::string> repair_note() const override {
    std::vector<std::string> notes = fleet_.notes();
    notes.insert(notes.end(), warnings_.begin(), warnings_.end());
    return notes.empty() ? std::nullopt
                         : std::optional(fmt::format("{}: {}", client_.base(), join(notes, "; ")));
  }

 private:
  // Whether there was any. The raw samples of the range, with the times at which they were scraped:
  // a range query would repeat old values for five minutes.
  Result<bool> ask(const KnownMetric& metric, std::chrono::nanoseconds range) {
    std::multimap<std::string, std::string> question = {
        {"query", fmt::format("{}{{{}}}[{}]", metric.name, matchers(options_.selector),
                              promql_duration(range))}};
    if (!time_.empty()) question.emplace("time", time_);
    auto body = TRY(client_.get("/api/v1/query", question));
    auto answer = TRY(parse_series(body));
    for (const std::string& warning : answer.warnings)
      warnings_.insert("Prometheus warns: " + printable(warning));
    fleet_.add(metric, answer.series);
    if (fleet_.readings() > kMostReadings && options_.after == AfterWindow::end)
      return Error{
          fmt::format("more than {} million readings in this window", kMostReadings / 1'000'000),
          "ask for less: a shorter --window, or --selector 'cluster=\"a\"'"};
    return !answer.series.empty();
  }

  // One moment for all questions of a round, by the server's own clock: a scrape between two of
  // them would be torn in pieces.
  void ask_time() {
    time_.clear();
    auto body = client_.get("/api/v1/query", {{"query", "vector(time())"}});
    if (!body) return;
    if (const auto answer = parse_series(*body);
        answer && !answer->series.empty() && !answer->series.front().t_ms.empty())
      time_ = fmt::format("{:.3f}", answer->series.front().t_ms.back() / 1e3);
  }

  void ask_for_news() {
    // What was missed while the server was away is asked for too, but no more than the window: it
    // must not grow until no answer holds it.
    const auto missed = silence_ ? monotonic_now() - silent_since_ : 0ns;
    const auto range = std::min<std::chrono::nanoseconds>(
        options_.window, kAskEvery +
                             std::chrono::nanoseconds(static_cast<std::int64_t>(
                                 kOverlap * fleet_.spacing_ms().value_or(15'000) * 1e6)) +
                             missed);
    asked_at_ = monotonic_now();
    ask_time();
    std::vector<const KnownMetric*> round = asked_;
    // the first Xid, the first finding
    if (++rounds_ % kAskEmptyEvery == 0) round.insert(round.end(), empty_.begin(), empty_.end());
    for (const KnownMetric* const metric : round)
      if (!ask(*metric, range)) {
        if (!silence_) silent_since_ = asked_at_;
        silence_ = Silence{
            std::chrono::duration_cast<std::chrono::milliseconds>(monotonic_now() - silent_since_),
            "/api/v1/query"};
        return;
      }
    silence_.reset();
    take();
  }

  void take() {
    for (Record& record : fleet_.take_records()) {
      if (auto* tick = std::get_if<GpuTick>(&record.content)) {
        if (!wanted_.empty())
          std::erase_if(*tick,
                        [&](const GpuSample& sample) { return !wanted_.contains(sample.index); });
        // Asked for again, for some come late: what was handed on already is not news.
        std::erase_if(
            *tick, [&](const GpuSample& sample) { return record.t_ms <= newest_of(sample.index); });
        if (tick->empty()) continue;
        for (const GpuSample& sample : *tick) newest_[sample.index] = record.t_ms;
      } else if (const auto* event = std::get_if<Event>(&record.content)) {
        if (!wanted_.empty() && event->gpu && !wanted_.contains(*event->gpu)) continue;
      }
      pending_.push_back(std::move(record));
    }
  }
  double newest_of(int gpu) const {
    const auto entry = newest_.find(gpu);
    return entry == newest_.end() ? -1 : entry->second;
  }

  HttpClient client_;
  PrometheusOptions options_;
  FleetLog fleet_;
  Machine machine_;
  std::set<int> wanted_;
  std::vector<const KnownMetric*> asked_;  // those that had anything
  std::vector<const KnownMetric*> empty_;  // and those that may have later
  int rounds_ = 0;
  std::string time_;  // of the server, for this round
  std::deque<Record> pending_;
  std::map<int, double> newest_;
  std::set<std::string> warnings_;
  std::chrono::nanoseconds asked_at_{};
  std::chrono::nanoseconds silent_since_{};
  std::optional<Silence> silence_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_prometheus(const std::string& url,
                                                const PrometheusOptions& options,
                                                const std::vector<int>& gpus) {
  auto client = TRY(HttpClient::open(url, options));
  auto source = std::make_unique<PrometheusSource>(std::move(client), options);
  TRY(source->read_window(gpus));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace lockstep
