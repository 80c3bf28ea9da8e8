#include "render/text/trace_text.hpp"

#include <fmt/format.h>

#include "render/text/table.hpp"

namespace lockstep {

std::string word_table_text(const WordTable& words, std::size_t width, const Painter& paint) {
  std::vector<std::pair<std::string, Align>> columns;
  for (const std::string& name : words.heading)
    columns.emplace_back(name, columns.empty() ? Align::left : Align::right);
  Table table(columns);
  for (const std::vector<std::string>& row : words.rows) table.add(row);
  return paint.bold(words.title) + "\n" + table.text(width) + "\n";
}

std::string trace_text(const TraceSignals& trace, std::size_t width, const Painter& paint) {
  std::string text;
  for (const WordTable& table : trace_tables(trace)) text += word_table_text(table, width, paint);
  if (const std::string path = critical_path_words(trace); !path.empty())
    text += wrapped("critical path: " + path, 0, width);
  for (const std::string& sentence : what_if_sentences(trace))
    text += "what if: " + sentence + "\n";
  return text + "\n";
}

}  // namespace lockstep
