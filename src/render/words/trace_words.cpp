#include "render/words/trace_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostRanks = 16;
constexpr std::size_t kMostStreams = 8;
constexpr std::size_t kMostKernels = 10;
constexpr std::size_t kNameColumns = 54;
constexpr double kTraceWorthSaying = 0.01;

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}
std::string us_words(double us) {
  return us < 1000 ? fmt::format("{:.1f} us", us) : milliseconds_words(us / 1e3);
}

// Kernel names are templates of several hundred letters: the function and the first of its
// arguments tell them apart.
std::string short_kernel(const std::string& name) {
  constexpr std::string_view kNowhere = "(anonymous namespace)::";
  std::string whole = name;
  for (auto at = whole.find(kNowhere); at != std::string::npos; at = whole.find(kNowhere))
    whole.erase(at, kNowhere.size());
  std::string_view rest = whole;
  if (rest.starts_with("void ")) rest.remove_prefix(5);
  // "Memcpy HtoD (Pageable -> Device)" says something in its brackets.
  if (const auto open = rest.find('(');
      open != std::string_view::npos && open > 0 && !rest.starts_with("Mem"))
    rest = rest.substr(0, open);
  std::string words = printable(rest);
  if (words.size() > kNameColumns) words = words.substr(0, kNameColumns - 1) + "\u2026";
  return words;
}

WordTable trace_time_table(const TraceSignals& trace) {
  WordTable table{
      "where the GPU's time went",
      {"rank", "span", "idle", "computing", "only moving data", "collectives under computing"},
      {}};
  for (const RankBreakdown& rank : trace.breakdown.ranks) {
    if (table.rows.size() == kMostRanks) break;
    table.rows.push_back(
        {std::to_string(rank.rank), us_words(rank.span_us), percent(rank.idle_us, rank.span_us),
         percent(rank.compute_us, rank.span_us), percent(rank.non_compute_us, rank.span_us),
         rank.overlap ? fmt::format("{:.1f} %", *rank.overlap * 100) : "-"});
  }
  return table;
}

WordTable idle_table(const TraceSignals& trace) {
  WordTable table{
      "why streams were idle",
      {"rank, GPU, stream", "idle", "not launched yet", "being launched", "launched, but waited"},
      {}};
  struct Row {
    double idle;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows;
  for (const RankBreakdown& rank : trace.breakdown.ranks)
    for (const StreamIdle& stream : rank.streams) {
      const double idle = stream.host_wait_us + stream.kernel_wait_us + stream.other_us;
      if (idle <= 0) continue;
      rows.push_back({idle,
                      {fmt::format("{}, {}, {}", rank.rank, stream.device, stream.stream),
                       us_words(idle), percent(stream.host_wait_us, idle),
                       percent(stream.kernel_wait_us, idle), percent(stream.other_us, idle)}});
    }
  for (Row& row : rows)
    if (table.rows.size() < kMostStreams) table.rows.push_back(std::move(row.cells));
  return table;
}

WordTable kernel_table(const TraceSignals& trace) {
  WordTable table{"longest kernels", {"kernel", "kind", "times", "all", "longest"}, {}};
  if (trace.breakdown.ranks.empty()) return table;
  const RankBreakdown& rank = trace.breakdown.ranks.front();
  if (trace.breakdown.ranks.size() > 1) table.title += fmt::format(" (rank {})", rank.rank);
  for (const KernelSum& kernel : rank.kernels) {
    if (table.rows.size() == kMostKernels) break;
    table.rows.push_back({short_kernel(kernel.name),
                          std::string(kKernelTypeNames[static_cast<std::size_t>(kernel.type)]),
                          std::to_string(kernel.count), us_words(kernel.sum_us),
                          us_words(kernel.longest_us)});
  }
  return table;
}

std::string path_word(const std::string& what) {
  if (what == "compute") return "computing";
  if (what == "launch") return "launching";
  if (what == "forward" || what == "backward") return "host in " + what;
  if (what == "optimizer") return "host in the optimizer";
  if (what == "other") return "host elsewhere";
  if (what == "copy") return "copying";
  std::string words = what;
  std::ranges::replace(words, '_', ' ');
  return words;
}

}  // namespace

std::string input_name(const std::string& detail) { return detail.substr(detail.rfind('/') + 1); }

std::string trace_sentence(const TraceSignals& trace) {
  std::string words =
      fmt::format("{} rank{}", trace.ranks.size(), trace.ranks.size() == 1 ? "" : "s");
  if (trace.steps > 0)
    words += fmt::format(", {} step{} of {} (median)", trace.steps, trace.steps == 1 ? "" : "s",
                         milliseconds_words(trace.step_ms));
  else
    words += ", no steps marked (ProfilerStep or Optimizer.step)";
  if (trace.breakdown.like_hta) words += ", numbers as HolisticTraceAnalysis has them";
  return words;
}

std::vector<WordTable> trace_tables(const TraceSignals& trace) {
  std::vector<WordTable> tables = {trace_time_table(trace), idle_table(trace), kernel_table(trace)};
  std::erase_if(tables, [](const WordTable& table) { return table.rows.empty(); });
  return tables;
}

std::string critical_path_words(const TraceSignals& trace) {
  std::vector<std::string> words;
  for (const CriticalShare& share : trace.critical_path) {
    if (share.share < kTraceWorthSaying || words.size() == 8) continue;
    words.push_back(
        fmt::format("{} {:.0f} %{}", path_word(share.what), share.share * 100,
                    trace.ranks.size() > 1 ? fmt::format(" on rank {}", share.rank) : ""));
  }
  return join(words, ", ");
}

std::vector<std::string> what_if_sentences(const TraceSignals& trace) {
  std::vector<std::pair<double, std::string>> gains;
  const auto add = [&](double gain, const char* without) {
    if (gain >= kTraceWorthSaying) gains.emplace_back(gain, without);
  };
  constexpr std::array<std::pair<StepPart, const char*>, 7> kParts = {
      {{StepPart::data_wait, "without waiting for data"},
       {StepPart::sync, "without waiting for the GPU"},
       {StepPart::copy, "without waiting for copies"},
       {StepPart::logging, "without logging"},
       {StepPart::checkpoint, "without saving"},
       {StepPart::evaluation, "without evaluating"},
       {StepPart::other, "without what the host does outside operators"}}};
  for (const auto& [part, words] : kParts) add(trace.removable[index_of(part)], words);
  add(trace.removable_launches, "with launches that take no time");
  add(trace.removable_collectives, "with data that moves at once between the ranks");
  std::sort(gains.rbegin(), gains.rend());
  std::vector<std::string> sentences;
  for (const auto& [gain, words] : gains) {
    const std::string step =
        trace.steps > 0
            ? fmt::format("a step would take {}", milliseconds_words(trace.step_ms * (1 - gain)))
            : fmt::format("the captured part would take {}",
                          milliseconds_words(trace.captured_s * 1e3 * (1 - gain)));
    sentences.push_back(fmt::format("{} {} ({:.0f} % less)", words, step, gain * 100));
  }
  return sentences;
}

std::vector<std::string> change_sentences(const Comparison& comparison, const std::string& own) {
  std::vector<std::string> sentences;
  const std::string other = input_name(comparison.against);
  if (comparison.speedup > 0) {
    const bool own_faster = comparison.speedup >= 1;
    const double times = own_faster ? comparison.speedup : 1 / comparison.speedup;
    sentences.push_back(times < 1.005
                            ? fmt::format("{} and {} are equally fast", own, other)
                            : fmt::format("{} is {:.2f}x as fast as {}", own_faster ? own : other,
                                          times, own_faster ? other : own));
  }
  if (comparison.alike && *comparison.alike < 0.3) {
    sentences.assign(1, fmt::format("the two hardly share a kernel ({:.0f} % of the time): traces "
                                    "of different programs do not compare",
                                    *comparison.alike * 100));
    return sentences;
  }
  for (const std::string& finding : comparison.only_here)
    sentences.push_back(fmt::format("{}: in {}, fixed in {}", finding, own, other));
  for (const std::string& finding : comparison.only_there)
    sentences.push_back(fmt::format("{}: in {}, not in {}", finding, other, own));
  return sentences;
}

WordTable change_table(const Comparison& comparison, const std::string& own) {
  WordTable table{"what changed", {"", own, input_name(comparison.against), "change"}, {}};
  for (const Comparison::Change& change : comparison.changes) {
    const bool share = change.unit == "fraction";
    const auto words = [&](double value) {
      return share ? fmt::format("{:.1f} %", value * 100) : milliseconds_words(value);
    };
    const double difference = change.other - change.own;
    table.rows.push_back({change.what, words(change.own), words(change.other),
                          share ? fmt::format("{:+.1f} points", difference * 100)
                                : fmt::format("{}{}", difference < 0 ? "-" : "+",
                                              milliseconds_words(std::abs(difference)))});
  }
  return table;
}

WordTable step_change_table(const Comparison& comparison) {
  WordTable table{"what a step takes, mean", {"", "before", "now", "change"}, {}};
  for (const Comparison::Change& change : comparison.changes) {
    const double difference = change.own - change.other;
    table.rows.push_back({printable(change.what), milliseconds_words(change.other),
                          milliseconds_words(change.own),
                          fmt::format("{}{}", difference < 0 ? "-" : "+",
                                      milliseconds_words(std::abs(difference)))});
  }
  return table;
}

}  // namespace lockstep
