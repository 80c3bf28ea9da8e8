#include "render/words/fleet_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostJobs = 24;
constexpr std::size_t kMostHosts = 4;

// "GPU 0 to 7", "GPU 2, 5".
std::string run_of(const std::vector<int>& gpus) {
  const bool run =
      gpus.size() > 2 && gpus.back() - gpus.front() == static_cast<int>(gpus.size()) - 1;
  return run ? fmt::format("GPU {} to {}", gpus.front(), gpus.back()) : gpu_list(gpus);
}

std::string codes_of(const Job& job, const Report& report) {
  std::vector<std::string> codes;
  for (const Finding& finding : report.findings) {
    const bool its_own = std::ranges::any_of(
        finding.gpus, [&](int gpu) { return std::ranges::find(job.gpus, gpu) != job.gpus.end(); });
    const std::string code(name_of(finding.code).id);
    if (its_own && std::ranges::find(codes, code) == codes.end()) codes.push_back(code);
  }
  return join(codes, " ");
}

}  // namespace

bool has_a_place(const Finding& finding) {
  return !finding.gpus.empty() || finding.ranks.size() == 1;
}

std::string where_words(const Finding& finding) {
  if (finding.gpus.empty() && finding.ranks.size() == 1)
    return fmt::format("rank {}", finding.ranks.front());
  if (finding.hosts.empty()) return gpu_list(finding.gpus) + rank_list(finding);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < finding.hosts.size() && i < kMostHosts; ++i)
    parts.push_back(printable(finding.hosts[i].host) + " " + run_of(finding.hosts[i].gpus));
  std::string text = join(parts, "; ");
  if (finding.hosts.size() > kMostHosts)
    text += fmt::format(" and {} more hosts", finding.hosts.size() - kMostHosts);
  return text + rank_list(finding);
}

std::string gpu_label(const GpuInfo& gpu) {
  return gpu.host
             ? fmt::format("{} GPU {}", printable(*gpu.host), gpu.host_index.value_or(gpu.index))
             : fmt::format("GPU {}", gpu.index);
}

std::string short_gpu_label(const GpuInfo& gpu) {
  constexpr std::size_t kLongest = 15;
  if (!gpu.host)
    return gpu.index < 10 ? fmt::format("GPU {}", gpu.index) : fmt::format("GPU{}", gpu.index);
  const std::string label =
      fmt::format("{}:{}", printable(*gpu.host), gpu.host_index.value_or(gpu.index));
  // names differ in their ends
  return label.size() <= kLongest ? label : "\u2026" + label.substr(label.size() - kLongest + 1);
}

bool has_several_machines(const Report& report) {
  return std::ranges::any_of(report.gpus,
                             [](const GpuReport& gpu) { return gpu.info.host.has_value(); });
}

std::optional<WordTable> job_table(const Report& report) {
  if (!has_several_machines(report) || report.jobs.empty()) return std::nullopt;
  std::set<std::string> hosts;
  for (const GpuReport& gpu : report.gpus)
    if (gpu.info.host) hosts.insert(*gpu.info.host);
  WordTable table{fmt::format("{} GPUs of {} host{}, {} job{}", report.gpus.size(), hosts.size(),
                              hosts.size() == 1 ? "" : "s", report.jobs.size(),
                              report.jobs.size() == 1 ? "" : "s"),
                  {"job", "pattern", "GPUs", "hosts", "busy", "findings"},
                  {}};
  std::vector<const Job*> order;
  for (const Job& job : report.jobs) order.push_back(&job);
  std::ranges::stable_partition(order,
                                [&](const Job* job) { return !codes_of(*job, report).empty(); });
  for (const Job* const job : order) {
    if (table.rows.size() == kMostJobs) {
      table.rows.push_back({fmt::format("and {} more (--json has all)", order.size() - kMostJobs),
                            "", "", "", "", ""});
      break;
    }
    const std::string where = job->hosts.size() == 1 ? printable(job->hosts.front().host)
                                                     : fmt::format("{}", job->hosts.size());
    table.rows.push_back(
        {job->name.empty() ? "(none named)" : printable(job->name),
         job->verdict ? std::string(kPatternNames[static_cast<std::size_t>(job->verdict->pattern)])
                      : "-",
         std::to_string(job->gpus.size()), where,
         job->busy ? fmt::format("{:.0f} %", *job->busy * 100) : "-", codes_of(*job, report)});
  }
  return table;
}

namespace {

// "+12.3 ms", "-5 h 00 min".
std::string ahead_words(double ms) {
  constexpr double kInMilliseconds = 10'000;
  if (std::abs(ms) < 0.05) return "0.0 ms";
  if (std::abs(ms) < kInMilliseconds) return fmt::format("{:+.1f} ms", ms);
  return (ms < 0 ? "-" : "+") +
         format_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(std::abs(ms) * 1e6)));
}

}  // namespace

std::optional<WordTable> clock_table(const Report& report) {
  if (report.clocks.size() < 2) return std::nullopt;
  WordTable table{"clocks, against that of " + printable(report.clocks.front().host),
                  {"host", "ahead", "within", "drift", "told by", "file"},
                  {}};
  for (const HostClock& clock : report.clocks) {
    const bool first = &clock == &report.clocks.front();
    table.rows.push_back({printable(clock.host),
                          first            ? "0"
                          : clock.error_ms ? ahead_words(clock.ahead_ms)
                                           : "unknown",
                          clock.error_ms ? fmt::format("{:.1f} ms", *clock.error_ms) : "-",
                          clock.drift_ppm == 0 ? "-" : fmt::format("{:+.0f} ppm", clock.drift_ppm),
                          first            ? "itself"
                          : clock.error_ms ? fmt::format("{} steps", clock.matched_steps)
                                           : "nothing: taken as it is",
                          printable(clock.input)});
  }
  return table;
}

}  // namespace lockstep
