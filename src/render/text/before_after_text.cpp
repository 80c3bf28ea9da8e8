#include "render/text/before_after_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "render/text/table.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

std::string paint(Colors colors, const char* code, const std::string& text) {
  return colors == Colors::on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

std::string pattern_of(const Report& report) {
  return report.verdict
             ? std::string(kPatternNames[static_cast<std::size_t>(report.verdict->pattern)])
             : "nothing judged";
}

std::string run_text(const MeasuredRun& run, Colors colors, std::size_t width) {
  const Report& report = run.report;
  std::string text = fmt::format("{}  {}, {:.0f} tokens/s\n", paint(colors, "1", run.title),
                                 pattern_of(report), run.tokens_per_s);
  if (!report.pictures.empty())
    for (const LaneRow& row : report.pictures.front().rows) {
      const auto gpu = std::ranges::find_if(
          report.gpus, [&](const GpuReport& entry) { return entry.info.index == row.gpu; });
      const std::string busy = gpu != report.gpus.end() && gpu->busy
                                   ? fmt::format("{:3.0f} % busy", *gpu->busy * 100)
                                   : "";
      text += fmt::format("  {:<6} {}  {}\n", fmt::format("GPU {}", row.gpu),
                          lane_bars(row, width > 80 ? kLaneColumns : 40), busy);
    }
  return text + "\n";
}

// "ranks set (pid 7)" stands once a process; here it is one question.
std::string question_of(const CheckItem& item) {
  return item.question.starts_with("ranks set") ? "ranks' environment set" : item.question;
}

// Whether all items with this question say yes; nothing: it was not asked.
std::optional<bool> answer_to(const std::string& question, const Report& report) {
  std::optional<bool> answer;
  for (const CheckItem& item : report.checklist)
    if (question_of(item) == question) answer = answer.value_or(true) && item.yes.value_or(false);
  return answer;
}

std::string checklists_side_by_side(const BeforeAfter& runs, Colors colors) {
  std::string text = "                          before  after\n";
  std::vector<std::string> questions;
  for (const Report* report : {&runs.before.report, &runs.after.report})
    for (const CheckItem& item : report->checklist)
      if (std::ranges::find(questions, question_of(item)) == questions.end())
        questions.push_back(question_of(item));
  const auto word = [&](std::optional<bool> answer) {
    return !answer   ? std::string("-  ")
           : *answer ? paint(colors, "32", "yes")
                     : paint(colors, "31", "no ");
  };
  for (const std::string& question : questions)
    text +=
        fmt::format("  {:<24}{}     {}\n", question, word(answer_to(question, runs.before.report)),
                    word(answer_to(question, runs.after.report)));
  return text + "\n";
}

}  // namespace

std::string before_after_text(const BeforeAfter& runs, Colors colors,
                              std::optional<std::size_t> width) {
  const std::size_t columns = width.value_or(100);
  std::string text = run_text(runs.before, colors, columns) +
                     run_text(runs.after, colors, columns) + checklists_side_by_side(runs, colors);
  text += fmt::format("{:.0f} tokens/s before, {:.0f} after\n", runs.before.tokens_per_s,
                      runs.after.tokens_per_s);
  text += paint(colors, "1", fmt::format("speedup: {:.2f}x", runs.speedup())) + "\n";
  if (runs.disturbed_by) text += fmt::format("\n{}\n", *runs.disturbed_by);
  return text;
}

}  // namespace lockstep
