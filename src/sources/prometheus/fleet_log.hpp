// Puts series of many machines together: which GPU is which, whose it is, and what it read at each
// moment.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/source.hpp"
#include "sources/prometheus/known_metrics.hpp"
#include "sources/prometheus/series.hpp"

namespace lockstep {

class FleetLog {
 public:
  explicit FleetLog(std::string job_label) : job_label_(std::move(job_label)) {}

  void add(const KnownMetric& metric, const std::vector<MetricSeries>& series);
  std::size_t readings() const { return readings_; }  // ever held

  // Numbers the GPUs by machine and place, once all metrics of the first window are in. Later
  // series of GPUs that came since are left out.
  Machine machine();
  // What came since the last call, by time. After machine().
  std::vector<Record> take_records();
  // Median time between two readings of one GPU in the first window; nothing: too few. After
  // machine().
  std::optional<double> spacing_ms() const { return spacing_ms_; }
  std::vector<std::string> notes() const;
  std::set<Exporter> exporters() const { return exporters_; }

 private:
  using Key = std::pair<std::string, std::string>;  // machine; uuid, or its number there
  struct Gpu {
    GpuInfo info;
    std::optional<Exporter> told_by;             // whose readings are taken
    std::map<MetricUse, const KnownMetric*> by;  // which metric of several gives a quantity
    std::map<double, GpuSample> readings;        // by t_ms since 1970, not taken yet
    std::string newest_job;
    double newest_job_ms = 0;
    double job_since_ms = 0;     // when the labels began to name it
    double told_since_ms = 0;    // first reading of `busy`
    double spacing_ms = 15'000;  // of those
    double told_until_ms = 0;
    std::optional<double> memory_free;
    std::optional<double> memory_used;
    double memory_reserved = 0;
    struct Looked {
      double value = 0;
      double until_ms = 0;
    };
    // at Xids and losses: what is asked for again is no news
    std::map<std::string, Looked> looked;
  };
  struct NodeFinding {
    std::string host;
    std::vector<int> gpus;  // by their numbers there
    double lost = 0;
    double confidence = 0.5;
    double t_ms = 0;
    double told_ms = 0;  // when it was last handed on
    std::string severity;
  };

  struct EventOf {
    double t_ms = 0;
    const Gpu* gpu = nullptr;  // of gpus_, whose entries stay where they are
    Event event;
  };

  Gpu* gpu(const SeriesLabels& labels, Exporter exporter);
  void take_job(const std::string& job, const MetricSeries& series, Gpu& gpu);
  void add_values(const KnownMetric& metric, const MetricSeries& series, Gpu& gpu);
  void add_event(const KnownMetric& metric, const MetricSeries& series, Gpu& gpu);
  void add_finding(const KnownMetric& metric, const MetricSeries& series);
  void add_process(const MetricSeries& series, Gpu& gpu);
  std::optional<double> measured_spacing_ms() const;
  std::vector<int> numbers_of(const std::string& host, const std::vector<int>& on_host) const;

  std::string job_label_;
  std::map<Key, Gpu> gpus_;
  std::map<std::string, Key> by_uuid_;
  std::map<std::string, NodeFinding> findings_;  // by code, machine and GPUs
  std::vector<EventOf> events_;
  std::set<Exporter> exporters_;
  std::size_t readings_ = 0;
  bool nameless_findings_ = false;
  bool late_comers_ = false;
  std::size_t slices_ = 0;
  std::size_t unplaced_ = 0;
  std::size_t absurd_ = 0;
  std::optional<double> spacing_ms_;
  double start_ms_ = 0;  // since 1970: zero of the records' clock
  bool numbered_ = false;
};

}  // namespace lockstep
