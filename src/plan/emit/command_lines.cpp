// The lines that start it by hand: torchrun, and lockstep launch with the same flags.
#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/emit/parts.hpp"

namespace lockstep {
namespace {

Result<Emitted> line_of(const EmitInput& input, const std::string& launcher) {
  const PlannedWay& way = input.plan.choice;
  Emitted emitted;
  std::string line;
  for (const auto& [name, value] : variables_of(input.plan))
    line += fmt::format("{}={} ", name, shell_quoted(value));
  if (is_one_process(way))
    line += is_program(input.script) ? "" : "python ";
  else if (way.nodes == 1)
    line += fmt::format("{} --standalone --nproc_per_node={} ", launcher, processes_a_node(way));
  else {
    line += fmt::format(
        "{} --nnodes={} --nproc_per_node={} --rdzv_backend=c10d --rdzv_id=\"$JOB_ID\" "
        "--rdzv_endpoint=\"$HEAD_NODE:29500\" ",
        launcher, way.nodes, processes_a_node(way));
    emitted.notes.emplace_back(
        "the same line on every node; HEAD_NODE is the name of one of them, JOB_ID any word that "
        "is the same on all");
  }
  if (!is_one_process(way) && is_program(input.script)) line += "--no_python ";
  emitted.text = line + script_words(input) + "\n";
  for (std::string& note : notes_of(input.plan)) emitted.notes.push_back(std::move(note));
  return emitted;
}

}  // namespace

Result<Emitted> emit_torchrun(const EmitInput& input) { return line_of(input, "torchrun"); }
Result<Emitted> emit_launch(const EmitInput& input) { return line_of(input, "lockstep launch"); }

}  // namespace lockstep
