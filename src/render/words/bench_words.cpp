#include "render/words/bench_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {
namespace {

// The parts of a step as people say them.
std::string part_word(const std::string& name) {
  if (name == "collective_exposed") return "exchange";
  if (name == "collective_hidden") return "exchange behind backward";
  std::string word = name;
  std::ranges::replace(word, '_', ' ');
  return word;
}

std::string range_words(double low, double high) {
  return fmt::format("{:.1f}", low) == fmt::format("{:.1f}", high)
             ? fmt::format("{:.1f}x", low)
             : fmt::format("{:.1f}-{:.1f}x", low, high);
}

std::string expected_words(const std::vector<Expected>& expected) {
  std::vector<std::string> words;
  for (const Expected& at : expected)
    words.push_back(fmt::format("{} on {}", range_words(at.low, at.high), at.devices));
  return join(words, ", ");
}

const BenchRow* row_of(const BenchReport& report, const std::string& way, int devices) {
  for (const BenchRow& row : report.rows)
    if (row.what.way == way && row.what.devices == devices && !row.rounds.empty() &&
        !row.too_few_cores &&
        (way != "ddp" || (row.what.of_curve && row.what.growth == Growth::weak)))
      return &row;
  return nullptr;
}

}  // namespace

std::string speed_words(double speed) {
  if (speed < 100) return fmt::format("{:.2f}", speed);
  const std::string digits = fmt::format("{:.0f}", speed);
  std::string words;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) words += ',';
    words += digits[i];
  }
  return words;
}

std::string batch_words(const BenchCase& what) {
  if (what.batch == 0) return "its own";
  const bool divided = what.way != "naive" && what.devices > 1;
  std::string words =
      divided ? fmt::format("{} x {}", what.devices, what.batch) : std::to_string(what.batch);
  if (what.accumulation > 1) words += fmt::format(" x {}", what.accumulation);
  return words;
}

std::string busy_words(const BenchRow& row) {
  if (row.busy.empty()) return "-";
  std::vector<std::string> each;
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, row.busy.size()); ++i)
    each.push_back(fmt::format("{:.0f}", row.busy[i] * 100));
  return join(each, " ") + (row.busy.size() > kMost ? " ... %" : " %");
}

std::string parts_words(const BenchRow& row, std::size_t most) {
  constexpr double kWorthAWord = 0.01;
  std::vector<std::string> words;
  for (const auto& [name, share] : row.parts)
    if (words.size() < most && share >= kWorthAWord && name != "collective_hidden")
      words.push_back(fmt::format("{} {:.0f} %", part_word(name), share * 100));
  return words.empty() ? "-" : join(words, ", ");
}

std::string heading_words(const BenchReport& report) {
  const int most = std::ranges::max_element(report.rows, [](const BenchRow& a, const BenchRow& b) {
                     return a.what.devices < b.what.devices;
                   })->what.devices;
  return fmt::format("{} of {} on {} {}{}, {} {} by turns",
                     report.kind == BenchKind::scaling ? "scaling" : "presets", report.subject,
                     most == 1 ? "one" : fmt::format("up to {}", most), report.devices,
                     most == 1 ? "" : "s", report.rounds, report.rounds == 1 ? "round" : "rounds");
}

std::vector<std::string> fit_words(const BenchReport& report) {
  std::vector<std::string> words;
  if (!report.fit) return words;
  const ScalingFit& fit = *report.fit;
  if (fit.traffic_ms) {
    const std::string each =
        fit.each_ms ? fmt::format(" + {:.1f} ms x (n-1)", *fit.each_ms) : std::string();
    words.push_back(fmt::format(
        "a step of n devices, each with the whole batch: {:.1f} ms + {:.1f} ms x 2(n-1)/n{}{}",
        fit.alone_ms, *fit.traffic_ms, each,
        fit.each_ms
            ? ""
            : " (one point: what it lost may grow with n-1 instead; the range below has both)"));
    words.push_back(
        fmt::format("expected with links and cores like these: {}", expected_words(fit.weak)));
  }
  if (fit.serial)
    words.push_back(
        fmt::format("the same batch divided: {:.1f} % cannot be divided (Amdahl); expected {}",
                    *fit.serial * 100, expected_words(fit.strong)));
  if (!fit.left_out.empty()) {
    std::vector<std::string> devices;
    for (const int count : fit.left_out) devices.push_back(std::to_string(count));
    words.push_back(
        fmt::format("left out of the fit: {} devices, for want of cores", join(devices, " and ")));
  }
  return words;
}

std::vector<std::string> published_words(const BenchReport& report) {
  std::vector<std::string> words;
  if (report.kind != BenchKind::scaling || !report.has_steps) return words;
  for (const PublishedSpeedup& published : kPublishedSpeedups) {
    const BenchRow* row = row_of(report, "ddp", published.devices);
    // other units may count another work
    if (row == nullptr && report.unit == "samples/s")
      row = row_of(report, "script", published.devices);
    if (row != nullptr)
      words.push_back(fmt::format("published for {} GPUs: {}; here: {:.2f}x", published.devices,
                                  range_words(published.low, published.high), row->speedup));
  }
  for (const BenchRow& row : report.rows) {
    if (row.what.way != "data-parallel" || row.rounds.empty() || row.too_few_cores) continue;
    if (const BenchRow* ddp = row_of(report, "ddp", row.what.devices);
        ddp != nullptr && row.speed > 0)
      words.push_back(
          fmt::format("published for DDP over DataParallel: {}; here on {}: {:.2f}x",
                      range_words(kPublishedOverDataParallel[0], kPublishedOverDataParallel[1]),
                      row.what.devices, ddp->speed / row.speed));
  }
  return words;
}

std::string minutes_words(double minutes) {
  return minutes < 10 ? fmt::format("{:.1f} min", minutes) : fmt::format("{:.0f} min", minutes);
}

}  // namespace lockstep
