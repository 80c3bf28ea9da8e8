// A trace's numbers as text.
#pragma once

#include <string>

#include "lockstep/report.hpp"
#include "render/text/paint.hpp"
#include "render/words/trace_words.hpp"

namespace lockstep {

std::string trace_text(const TraceSignals& trace, std::size_t width, const Painter& paint);
std::string word_table_text(const WordTable& table, std::size_t width, const Painter& paint);

}  // namespace lockstep
