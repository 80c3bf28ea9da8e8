#include "render/html/html_trace.hpp"

#include <fmt/format.h>

#include "render/html/html_parts.hpp"
#include "render/words/trace_words.hpp"

namespace lockstep {
namespace {

std::string table_html(const WordTable& table) {
  std::string html = fmt::format("<h3>{}</h3><table><tr>", escaped(table.title));
  for (const std::string& name : table.heading) html += fmt::format("<th>{}</th>", escaped(name));
  html += "</tr>";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", escaped(cell));
    html += "</tr>";
  }
  return html + "</table>";
}

std::string list_html(const std::vector<std::string>& sentences) {
  std::string html = "<ul>";
  for (const std::string& sentence : sentences) html += fmt::format("<li>{}</li>", escaped(sentence));
  return html + "</ul>";
}

}  // namespace

std::string trace_html(const TraceSignals& trace) {
  std::string html = "<h2>Trace</h2>";
  if (const std::string path = critical_path_words(trace); !path.empty()) html += fmt::format("<p><b>critical path</b>: {}</p>", escaped(path));
  if (const auto sentences = what_if_sentences(trace); !sentences.empty()) html += "<h3>what if</h3>" + list_html(sentences);
  for (const WordTable& table : trace_tables(trace)) html += table_html(table);
  return html;
}

std::string changes_html(const Comparison& comparison, const std::string& own) {
  return list_html(change_sentences(comparison, own)) + table_html(change_table(comparison, own));
}

}  // namespace lockstep
