// What the GPUs' own records and NCCL's say, in tables and sentences that all renderers for people
// share.
#pragma once

#include <string>
#include <vector>

#include "lockstep/report.hpp"
#include "render/words/trace_words.hpp"

namespace lockstep {

// Whether stacks taken from outside are what names the lines: hooks in Python name them better.
bool stacks_name_the_lines(const Report& report);
// Where the host's Python code was, by stacks; where each GPU's time went; what collectives moved
// and how fast; who came late. Only those that there is something to say in.
std::vector<WordTable> device_tables(const Report& report);
// Why GPUs were idle; what probes cost; which ranks NCCL knows.
std::vector<std::string> device_sentences(const Report& report);
// "rung 2: the GPUs' own records (cuda), hooks in Python (python)"; empty: no probe was heard.
std::string standing_words(const Report& report);

}  // namespace lockstep
