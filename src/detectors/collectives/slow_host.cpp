// C401 of a whole machine: in a job over three hosts or more, one is late and all others wait for
// it.
//
// Why it shows though scrapes are far apart: means do not depend on the interval, and a host's mean
// is that of eight GPUs over dozens of readings. Ranks do the same work, so hosts of a healthy job
// differ by little. Three ways to be the late one: its GPUs rest while the others spin at full
// utilization (its host feeds them late); its clock is lower than theirs (hot, capped, or locked);
// its SMs are busier than theirs, because the others wait in NCCL. Confused with: pipeline or
// expert parallel jobs, whose hosts do different work: then several hosts differ, and one outlier
// among even others is asked for. Blind: with two hosts (which of the two is odd?); where lateness
// moves from host to host.
#include "detectors/collectives/slow_host.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/median.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kFewestHosts = 3;
// of the time, as for ranks; healthy hosts differ by 0.02 to 0.05
constexpr double kBusyGap = 0.12;
constexpr double kOthersSpin = 0.9;
// boost clocks of healthy H100s in one job differ by up to 4 %
constexpr double kClockRatio = 0.93;
constexpr double kSmGap = 0.12;
// the outlier stands so much further off than the others among themselves
constexpr double kTimesTheSpread = 3;

struct Outlier {
  std::size_t host = 0;
  double own = 0;
  double others = 0;  // median
};

// The host whose value lies furthest below (or above) the median of the others, where those agree
// among themselves.
std::optional<Outlier> odd_one(const std::vector<HostInJob>& hosts,
                               const std::function<std::optional<double>(const HostInJob&)>& value,
                               bool below) {
  std::vector<double> values;
  for (const HostInJob& host : hosts) {
    const auto number = value(host);
    if (!number) return std::nullopt;
    values.push_back(*number);
  }
  const auto at = below ? std::ranges::min_element(values) : std::ranges::max_element(values);
  Outlier odd;
  odd.host = static_cast<std::size_t>(at - values.begin());
  odd.own = *at;
  std::vector<double> others = values;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(odd.host));
  odd.others = middle_value(others);
  const auto [least, most] = std::ranges::minmax_element(others);
  const double gap = below ? *least - odd.own : odd.own - *most;
  if (gap <= 0 || std::abs(odd.others - odd.own) < kTimesTheSpread * (*most - *least))
    return std::nullopt;
  return odd;
}

Finding about_host(const JobSignals& job, const HostInJob& host, double confidence, double lost,
                   std::vector<Evidence> evidence) {
  Finding finding = about_job(FindingCode::straggler_rank, job,
                              lost > 0.3 ? Severity::critical : Severity::warning, confidence, lost,
                              std::move(evidence));
  finding.gpus = host.gpus;
  return finding;
}

}  // namespace

std::optional<Finding> find_slow_host(const JobSignals& job) {
  if (!job.spread) return std::nullopt;
  constexpr double kWorks = 0.02;  // a host that never does is not late: P103
  std::vector<HostInJob> hosts = job.spread->hosts;
  std::erase_if(hosts, [](const HostInJob& host) { return host.busy.value_or(0) < kWorks; });
  if (hosts.size() < kFewestHosts) return std::nullopt;
  // Clocks and SMs of other kinds of GPUs say nothing: a fast one runs at a lower clock.
  const bool one_kind = std::ranges::all_of(
      hosts, [&](const HostInJob& host) { return host.kind == hosts.front().kind; });
  // One that worked and then stopped is not late in every step: it crashed, or its part has ended.
  const auto rests_all_along = [](const HostInJob& host, double others) {
    return host.busy_early.value_or(0) < others - kBusyGap / 2 &&
           host.busy_late.value_or(0) < others - kBusyGap / 2 &&
           host.busy_early.value_or(1) >= kWorks && host.busy_late.value_or(1) >= kWorks;
  };
  // Its GPUs rest while the others spin.
  if (const auto odd = odd_one(
          hosts, [](const HostInJob& host) { return host.busy; }, true);
      odd && odd->others >= kOthersSpin && odd->others - odd->own >= kBusyGap &&
      rests_all_along(hosts[odd->host], odd->others))
    return about_host(job, hosts[odd->host], 0.7, odd->others - odd->own,
                      {{"busy_of_the_others", odd->others, kOthersSpin, "fraction"},
                       {"own_busy", odd->own, std::nullopt, "fraction"},
                       {"late_on_the_host", 1, std::nullopt, "yes"}});
  // Its clock is lower, and it is as busy: the others wait for it in every step.
  if (const auto odd = odd_one(
          hosts, [](const HostInJob& host) { return host.clock_mhz; }, true);
      one_kind && odd && odd->others > 0 && odd->own / odd->others < kClockRatio &&
      hosts[odd->host].busy.value_or(0) > 0.5)
    return about_host(job, hosts[odd->host], 0.75, 1 - odd->own / odd->others,
                      {{"clock_of_the_others_mhz", odd->others, std::nullopt, "MHz"},
                       {"own_clock_mhz", odd->own, kClockRatio * odd->others, "MHz"},
                       {"slow_on_the_gpu", 1, std::nullopt, "yes"}});
  // Its SMs are busier at the same utilization: the others wait in collectives, which fill few of
  // them.
  if (const auto odd = odd_one(
          hosts, [](const HostInJob& host) { return host.sm; }, false);
      one_kind && odd && odd->own - odd->others >= kSmGap &&
      hosts[odd->host].busy.value_or(0) >= kOthersSpin)
    return about_host(job, hosts[odd->host], 0.6, std::min(0.9, 1 - odd->others / odd->own),
                      {{"own_sm", odd->own, std::nullopt, "fraction"},
                       {"sm_of_the_others", odd->others, std::nullopt, "fraction"},
                       {"slow_on_the_gpu", 1, std::nullopt, "yes"}});
  return std::nullopt;
}

}  // namespace lockstep
