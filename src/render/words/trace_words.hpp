// What a trace comes to, as tables and sentences: the same in text, Markdown and HTML.
#pragma once

#include <string>
#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

// Cells as words; numbers to the right.
struct WordTable {
  std::string title;
  std::vector<std::string> heading;  // the first column to the left
  std::vector<std::vector<std::string>> rows;
};

// "6 steps of 175 ms (median); the replay takes 0.0 % longer than what was captured".
std::string trace_sentence(const TraceSignals& trace);
// Where each rank's GPU time went; why it was idle, stream by stream; the longest kernels.
std::vector<WordTable> trace_tables(const TraceSignals& trace);
// "data wait 35 % on rank 1, computing 30 % …"
std::string critical_path_words(const TraceSignals& trace);
// "without waiting for data a step takes 125 ms (28 % less)", one each.
std::vector<std::string> what_if_sentences(const TraceSignals& trace);

// Two runs beside each other; empty: nothing to say.
std::vector<std::string> change_sentences(const Comparison& comparison, const std::string& own);
WordTable change_table(const Comparison& comparison, const std::string& own);
// Of two profiles, the other one the earlier.
WordTable step_change_table(const Comparison& comparison);

// The name of the input that a report was made of, without its folders.
std::string input_name(const std::string& detail);

}  // namespace lockstep
