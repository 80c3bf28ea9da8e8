// Which ranks run what: conditions on the rank, and the collectives that each kind of rank comes
// through.
//
// A barrier under `if rank == 0` is right when the others meet it under their own condition; so
// paths are compared, not lines: the collectives that rank 0 comes through in a function, calls
// followed, against those of the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fix/facts/value_origins.hpp"

namespace lockstep {

// Whom a condition lets through: `rank == 0`, `is_main_process()`, `local_rank not in (-1, 0)`.
enum class RankTest : std::uint8_t { nobody_in_particular, main_rank, other_ranks };
RankTest rank_test(Node condition);
// Whether the condition holds for those ranks whatever else is true: no `and epoch % 5 == 0`.
bool is_bare_rank_test(Node condition);
// Whether an expression speaks of a rank or of the main process in any way.
bool names_a_rank(Node expression);

bool is_collective(const PythonCall& call);

// A function or a module in which rank 0 comes through other collectives than the rest.
struct SplitPath {
  FileId file = 0;
  Node condition;  // the `if` where the ways part
  // the first collective on one side that the other does not meet; none: one side leaves
  const PythonCall* lone = nullptr;
  std::string of_main;  // "barrier, all_reduce"
  std::string of_others;
};
std::vector<SplitPath> split_paths(const Project& project, const TrainingCode& code,
                                   const ValueOrigins& origins);

// Whether every rank comes to a node: no condition on the rank around it, no early return of the
// others before, and the same of at least one call of its function. Nothing: not known.
std::optional<bool> runs_on_every_rank(const ValueOrigins& origins, FileId file, Node node);

// What names the rank at a place: a variable there, else dist.get_rank() as the file can say it.
std::string rank_expression(const PythonModule& module, Node at);

}  // namespace lockstep
