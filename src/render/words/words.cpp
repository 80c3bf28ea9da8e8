#include "render/words/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/text.hpp"

namespace lockstep {
namespace {

std::string bar(const std::optional<double>& value) {
  if (!value) return "\u00B7";
  return std::string(
      kLaneBars[static_cast<std::size_t>(std::lround(std::clamp(*value, 0.0, 1.0) * 8))]);
}

}  // namespace

std::string lane_bars(const LaneRow& row, std::size_t columns) {
  std::string text;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t from = column * row.values.size() / columns;
    const std::size_t to = std::max(from + 1, (column + 1) * row.values.size() / columns);
    double sum = 0;
    int count = 0;
    for (std::size_t i = from; i < to && i < row.values.size(); ++i)
      if (row.values[i]) {
        sum += *row.values[i];
        ++count;
      }
    text += bar(count > 0 ? std::optional(sum / count) : std::nullopt);
  }
  return text;
}

std::string_view safety_word(FixSafety safety) {
  return safety == FixSafety::safe ? "safe" : safety == FixSafety::unsafe ? "unsafe" : "manual";
}

std::string_view severity_word(Severity severity) {
  return severity == Severity::info      ? "info"
         : severity == Severity::warning ? "warning"
                                         : "critical";
}

std::string gpu_list(const std::vector<int>& gpus) {
  std::vector<std::string> names;
  for (const int gpu : gpus) names.push_back(std::to_string(gpu));
  return "GPU " + join(names, ", ");
}

std::string rank_list(const Finding& finding) {
  if (finding.ranks.empty()) return {};
  std::vector<std::string> names;
  for (const int rank : finding.ranks) names.push_back(std::to_string(rank));
  return fmt::format(" (rank {})", join(names, ", "));
}

std::string place_list(const Finding& finding) {
  std::string text;
  for (const SourceLine& line : finding.where)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", printable(line.file), line.line);
  return text;
}

std::string_view as_far_as_seen(const Report& report) {
  return report.probes_broke_off ? " in what was seen: a probe broke off" : "";
}

std::string cost_sentence(const Finding& finding) {
  if (finding.cause_of)
    return fmt::format("costs what {} costs: it is its cause", name_of(*finding.cause_of).id);
  if (finding.lost_throughput < 0.0005) return "costs no throughput";
  if (name_of(finding.code).kind == FindingKind::shared)
    return fmt::format("takes about {:.0f} % of the GPU from each of them; the GPU itself works on",
                       finding.lost_throughput * 100);
  const std::string so_far =
      fmt::format("has cost {:.0f} % of the time watched", finding.lost_throughput * 100);
  // One event is no rate.
  for (const Evidence& evidence : finding.evidence) {
    if (evidence.signal == kNothingHasRun) return so_far;
    if (evidence.signal == kHappened)
      return fmt::format("happened {}, and {}; how often it comes is not known",
                         evidence.value < 2 ? "once" : "twice", so_far);
  }
  std::string words = fmt::format(
      "costs {:.{}f} % of the throughput: {:.1f} h of every day", finding.lost_throughput * 100,
      finding.lost_throughput < 0.01 ? 1 : 0, 24 * finding.lost_throughput);
  if (finding.lost_gpu_hours_a_day > 0)
    words += fmt::format(", {:.1f} GPU-hours", finding.lost_gpu_hours_a_day);
  return words;
}

std::string ledger_words(const Ledger& ledger) {
  constexpr std::array<std::string_view, kLedgerPartNames.size() - 1> kWords = {
      "working",
      "waiting for input",
      "launching kernels",
      "synchronising",
      "logging",
      "saving",
      "evaluating",
      "collecting garbage",
      "other host code",
      "waiting for a rank",
      "communicating",
      "waiting for its turn",
      "slowed",
      "unused"};
  constexpr double kWorthAWord = 0.005;
  std::vector<std::size_t> parts;
  for (std::size_t i = 1; i < kWords.size(); ++i)
    if (ledger.share[i] >= kWorthAWord) parts.push_back(i);
  std::ranges::stable_sort(
      parts, [&](std::size_t a, std::size_t b) { return ledger.share[a] > ledger.share[b]; });
  parts.insert(parts.begin(), 0);
  std::vector<std::string> words;
  for (const std::size_t part : parts)
    words.push_back(
        fmt::format("{}{} {:.0f} %", kWords[part],
                    part == 0 && !ledger.waiting_is_known ? " or waiting for others" : "",
                    ledger.share[part] * 100));
  const double not_known = ledger[LedgerPart::unknown] - ledger.unread;
  if (not_known >= kWorthAWord) words.push_back(fmt::format("not known {:.0f} %", not_known * 100));
  if (ledger.unread >= kWorthAWord)
    words.push_back(fmt::format("without readings {:.0f} %", ledger.unread * 100));
  return join(words, ", ");
}

std::optional<std::string> gpu_time_words(const Report& report) {
  const bool on_gpus = !report.gpus.empty() || report.trace;
  if (!on_gpus || report.jobs.empty() || report.jobs.front().ledger.gpu_seconds <= 0)
    return std::nullopt;
  const Ledger& ledger = report.jobs.front().ledger;
  // Of two looks no part is known, and "working 0 %" beside GPUs that are busy would be false.
  constexpr double kAllOfIt = 0.995;
  if (ledger[LedgerPart::unknown] - ledger.unread >= kAllOfIt) return "GPU time: not known";
  return "GPU time: " + ledger_words(ledger);
}

std::optional<std::string> throughput_words(const Report& report) {
  constexpr double kFarMore = 0.2;  // of the GPU time
  if (!report.throughput || report.findings.empty()) return std::nullopt;
  const double now = report.throughput->now / std::max(report.throughput->possible, 1e-9);
  double lost = 0;
  double seconds = 0;
  for (const Job& job : report.jobs) {
    const double read = 1 - job.ledger.unread;
    const double working = job.ledger[LedgerPart::working] + job.ledger[LedgerPart::slowed];
    lost += job.ledger.gpu_seconds * std::max(0.0, read - working);
    seconds += job.ledger.gpu_seconds * read;
  }
  if (seconds > 0 && !report.gpus.empty() && lost / seconds - (1 - now) > kFarMore)
    return fmt::format(
        "the findings cost {:.0f} % of the throughput; the GPUs do not work in {:.0f} % of the "
        "time",
        (1 - now) * 100, lost / seconds * 100);
  return fmt::format("throughput now: {:.0f} % of what {} could do", now * 100,
                     report.gpus.empty() ? "the job" : "these GPUs");
}

std::optional<std::string> undecided_words(const Report& report) {
  constexpr double kWorthAQuestion = 0.1;
  constexpr double kWorthNaming = 0.05;
  if (report.jobs.empty() || !report.verdict || report.trace) return std::nullopt;
  const Pattern pattern = report.verdict->pattern;
  const Ledger& ledger = report.jobs.front().ledger;
  const double unknown = ledger[LedgerPart::unknown] - ledger.unread;
  if ((pattern != Pattern::in_step && pattern != Pattern::single_gpu) || unknown < kWorthAQuestion)
    return std::nullopt;
  std::vector<const Finding*> possible;
  for (const auto* const list : {&report.findings, &report.suspicions})
    for (const Finding& finding : *list) {
      const LedgerPart part = name_of(finding.code).part;
      const bool of_the_host = part >= LedgerPart::input && part <= LedgerPart::host_code;
      if (of_the_host && finding.confidence < kChargedFrom &&
          finding.lost_throughput >= kWorthNaming)
        possible.push_back(&finding);
    }
  std::ranges::stable_sort(possible, std::greater{}, &Finding::confidence);
  std::vector<std::string> names;
  for (const Finding* const finding : possible)
    names.push_back(fmt::format("{} {} ({:.0f} %)", name_of(finding->code).id,
                                name_of(finding->code).name, finding->confidence * 100));
  if (report.steps && !report.steps->places.empty())
    return fmt::format(
        "{:.0f} % of the GPU time is not explained; what the host did is in the table of steps, "
        "what "
        "of it the GPU waited for only the GPU's own records would tell (the probe cuda)",
        unknown * 100);
  const bool live =
      report.source_kind == SourceKind::nvml || report.source_kind == SourceKind::virtual_gpus;
  const bool no_stacks = std::ranges::any_of(report.not_measured, [](const NotMeasured& entry) {
    return entry.signal == "python stacks";
  });
  return fmt::format(
      "{:.0f} % of the GPU time is not explained; it may be {}. What would tell: {}", unknown * 100,
      names.empty() ? "input, launching, logging or other code of the host" : join(names, ", "),
      !live       ? "lockstep diagnose beside the running job, which looks at its threads, or "
                    "lockstep profile -- CMD"
      : no_stacks ? "py-spy (pip install py-spy) and the same command again, or lockstep profile "
                    "-- CMD"
                  : "lockstep profile -- CMD");
}

std::optional<std::string> held_after_words(const Report& report) {
  if (report.jobs.empty() || !report.jobs.front().held_after_s) return std::nullopt;
  return fmt::format(
      "for the last {} nothing ran and its memory was still held: the job had ended without "
      "letting go, waits for something on the host, or hangs (py-spy dump --pid PID shows where)",
      format_duration(std::chrono::seconds(std::llround(*report.jobs.front().held_after_s))));
}

std::string command_words(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  for (const std::string& word : command) words.push_back(printable(shell_quoted(word)));
  return join(words, " ");
}

std::string part_words(std::size_t part) {
  std::string words(kStepSpanNames[part]);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string milliseconds_words(double milliseconds) {
  if (milliseconds >= 10'000) return fmt::format("{:.1f} s", milliseconds / 1e3);
  return fmt::format("{:.{}f} ms", milliseconds,
                     milliseconds >= 100  ? 0
                     : milliseconds >= 10 ? 1
                                          : 2);
}

std::string short_place(const std::string& file, int line, std::size_t columns) {
  const std::string place = file + ":" + std::to_string(line);
  if (place.size() <= columns) return place;
  auto slash = place.find('/', place.size() - columns + 2);
  if (slash == std::string::npos) slash = place.rfind('/');
  return slash == std::string::npos ? place : "\u2026" + place.substr(slash);
}

std::string what_words(const PlaceSignals& place) {
  const std::string& what = place.place.what;
  if (what.empty()) return "the line itself";
  const auto functions = split(what, '<');
  return std::string(functions.front());
}

namespace {

// What a part waits for by its nature says nothing of it.
bool goes_without_saying(StepPart part, ThreadDoing doing) {
  const bool waits_for_others = doing == ThreadDoing::lock || doing == ThreadDoing::pipe;
  switch (part) {
    case StepPart::data_wait: return waits_for_others;           // its workers
    case StepPart::backward: return doing == ThreadDoing::lock;  // autograd's own threads
    case StepPart::collective_exposed: return waits_for_others || doing == ThreadDoing::socket;
    default: return false;
  }
}

constexpr PerDoing<std::string_view> kMeanwhile = {"",
                                                   "reading files",
                                                   "writing files",
                                                   "waiting for a server",
                                                   "waiting for another process",
                                                   "asleep",
                                                   "waiting for another thread",
                                                   "in the GPU's driver",
                                                   "waiting for a child process",
                                                   "blocked"};

// 2nd, 3rd, 40th.
std::string ordinal_words(long number) {
  const bool is_teen = number % 100 >= 11 && number % 100 <= 13;
  const std::string_view ending = is_teen            ? "th"
                                  : number % 10 == 1 ? "st"
                                  : number % 10 == 2 ? "nd"
                                  : number % 10 == 3 ? "rd"
                                                     : "th";
  return fmt::format("{}{}", number, ending);
}

// "93 % asleep"; empty where it ran for the most.
std::string main_thread_words(const PlaceSignals& place) {
  constexpr double kWorthTelling = 0.25;
  if (!place.main_thread) return "";
  double most = place.main_thread->waiting_for_a_core;
  std::string_view what = "waiting for a core";
  for (std::size_t i = 0; i < kMeanwhile.size(); ++i)
    if (place.main_thread->blocked[i] > most &&
        !goes_without_saying(place.part, static_cast<ThreadDoing>(i))) {
      most = place.main_thread->blocked[i];
      what = kMeanwhile[i];
    }
  return most < kWorthTelling ? "" : fmt::format("{:.0f} % {}", most * 100, what);
}

}  // namespace

std::string how_often_words(const PlaceSignals& place) {
  std::string words;
  if (place.present > 0.95)
    words = fmt::format("{} in every step", milliseconds_words(place.step_p50_ms));
  else if (place.present > 0.4)
    words = fmt::format("{} in {:.0f} % of steps", milliseconds_words(place.step_p50_ms),
                        place.present * 100);
  else
    words = fmt::format("{} in every {} step", milliseconds_words(place.step_p50_ms),
                        ordinal_words(std::lround(1 / std::max(place.present, 1e-9))));
  const double calls = place.calls_a_step / std::max(place.present, 1e-9);
  if (calls > 1.5) words += fmt::format(", {:.0f} calls", calls);
  if (place.hidden_share > 0.5 * place.share) words += ", hidden behind the GPU";
  if (const std::string meanwhile = main_thread_words(place); !meanwhile.empty())
    words += ", " + meanwhile;
  return words;
}

std::string how_sure_words(const Verdict& verdict) {
  return verdict.pattern == Pattern::unclear
             ? ""
             : fmt::format(" ({:.0f} % sure)", verdict.confidence * 100);
}

std::string signal_words(const std::string& signal) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kWords = {
      {{"power_samples", "power every 20 ms"},
       {"sm", "SM activity"},
       {"tensor", "tensor cores"},
       {"dram", "memory traffic"},
       {"limits", "clock limits"},
       {"steps", "the parts of a step"},
       {"busy", "utilization"}}};
  const auto known = std::ranges::find(kWords, signal, &decltype(kWords)::value_type::first);
  return known == kWords.end() ? signal : std::string(known->second);
}

std::string log_sentence(const Report& report) {
  if (!report.steps && report.findings.empty() && report.suspicions.empty())
    return fmt::format(
        "training log {}: no error message that lockstep knows, and no time per step",
        report.source_detail);
  if (!report.steps) return "messages in " + report.source_detail;
  constexpr double kDiffers = 1.2;
  const StepSignals& steps = *report.steps;
  std::string text = fmt::format("training log {}: its lines tell {} per step",
                                 report.source_detail, milliseconds_words(steps.duration_p50_ms));
  if (steps.count == 1) text += " (in one line)";
  if (steps.mean_ms() > kDiffers * steps.duration_p50_ms ||
      steps.duration_p50_ms > kDiffers * steps.mean_ms())
    text += fmt::format(" in the median, {} on average", milliseconds_words(steps.mean_ms()));
  if (const double wait = steps.share[index_of(StepPart::data_wait)]; wait > 0)
    text += fmt::format(", {:.0f} % of it waiting for data", wait * 100);
  return text;
}

std::string watched_words(const Report& report) {
  if (report.duration_s == 0) return "one look";
  if (!report.looks_without_times)
    return "watched " +
           format_duration(std::chrono::nanoseconds(std::llround(report.duration_s * 1e9)));
  return fmt::format("{} looks, taken as one second apart", *report.looks_without_times);
}

std::string join_numbers(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return join(words, ", ");
}

}  // namespace lockstep
