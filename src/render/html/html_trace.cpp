#include "render/html/html_trace.hpp"

#include <fmt/format.h>

#include "render/html/flame_svg.hpp"
#include "render/html/html_parts.hpp"
#include "render/words/device_words.hpp"
#include "render/words/fleet_words.hpp"
#include "render/words/trace_words.hpp"

namespace lockstep {
namespace {

std::string table_html(const WordTable& table) {
  std::string html = fmt::format("<h3>{}</h3><table><tr>", escaped(table.title));
  const auto cell = [&](const char* tag, const std::vector<std::string>& row, std::size_t i) {
    // Words to the left, numbers to the right.
    const bool is_number = i > 0 && !(table.heading[i] == "kind");
    return fmt::format("<{0}{1}>{2}</{0}>", tag, is_number ? " class=\"number\"" : "",
                       escaped(row[i]));
  };
  for (std::size_t i = 0; i < table.heading.size(); ++i) html += cell("th", table.heading, i);
  html += "</tr>";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < table.heading.size(); ++i)
      html += cell("td", row, i);
    html += "</tr>";
  }
  return html + "</table>";
}

std::string list_html(const std::vector<std::string>& sentences) {
  std::string html = "<ul>";
  for (const std::string& sentence : sentences)
    html += fmt::format("<li>{}</li>", escaped(sentence));
  return html + "</ul>";
}

}  // namespace

std::string trace_html(const TraceSignals& trace) {
  std::string html = "<h2>Trace</h2>";
  if (const std::string path = critical_path_words(trace); !path.empty())
    html += fmt::format("<p><b>critical path</b>: {}</p>", escaped(path));
  if (const auto sentences = what_if_sentences(trace); !sentences.empty())
    html += "<h3>what if</h3>" + list_html(sentences);
  for (const WordTable& table : trace_tables(trace)) html += table_html(table);
  return html;
}

std::string devices_html(const Report& report) {
  std::string html;
  if (const auto jobs = job_table(report)) html += table_html(*jobs);
  if (const auto clocks = clock_table(report)) html += table_html(*clocks);
  for (const WordTable& table : device_tables(report)) html += table_html(table);
  if (stacks_name_the_lines(report))
    html += flame_svg(flame_graph(*report.stacks), SvgUse::within_a_page);
  if (const auto sentences = device_sentences(report); !sentences.empty())
    html += list_html(sentences);
  if (const std::string standing = standing_words(report); !standing.empty())
    html += fmt::format("<p class=\"soft\">{}</p>", escaped(standing));
  return html;
}

std::string changes_html(const Comparison& comparison, const std::string& own) {
  return list_html(change_sentences(comparison, own)) + table_html(change_table(comparison, own));
}

std::string step_changes_html(const Comparison& comparison) {
  return table_html(step_change_table(comparison));
}

}  // namespace lockstep
