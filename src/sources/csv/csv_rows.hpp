// What the rows of a CSV file tell together: whose they are, when, and which of them are none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sources/csv/csv_layout.hpp"

namespace lockstep {

// So few rows may be one look of nvidia-smi at several GPUs, or several looks at one.
inline constexpr std::size_t kOneLookAtMost = 16;

// A loop around the command on a machine of several GPUs: a header, and a row per GPU in order.
struct LooksByHeader {
  std::size_t gpus = 0;
  std::vector<std::string> times;  // what stands above each header, where those are dates
};

// Rows with neither a time nor a GPU's number: how many GPUs they are of, in turn. One: nothing in
// them tells.
std::size_t gpus_in_turn(const CsvLayout& layout, const CsvRows& rows);
// A date in one column and the time of day in the next are one.
std::optional<double> time_of(const CsvLayout& layout, const std::vector<std::string>& cells);
// Rows so near to each other are GPUs of one look, in a log that names no GPU: much nearer than
// looks are. A log of one GPU at 20 Hz has all of its rows 50 ms apart.
double one_look_s(const CsvLayout& layout, const CsvRows& rows);
// Utilization without a unit: a percentage, unless nothing exceeds 1 and something lies between.
double busy_scale(const CsvLayout& layout, const CsvRows& rows);
// Whoever wrote the file was stopped in the middle of a row: cells are missing, or the last one
// lacks the unit that it has in the row before.
bool ends_in_mid_row(const CsvLayout& layout, const CsvRows& rows);
// Two programs that write into one file tear each other's lines: a model that is named once among
// many rows is such a piece. How many rows were taken away.
std::size_t take_torn_rows_off(const CsvLayout& layout, CsvRows& rows);
bool has_a_number(const std::vector<std::string>& cells);
std::optional<LooksByHeader> looks_by_header(const std::vector<std::string>& lines,
                                             const std::string& header, const CsvLayout& layout,
                                             char separator);
// Their numbers and times in columns of their own.
void name_gpus(const LooksByHeader& looks, CsvLayout& layout, CsvRows& rows);
// What was taken for the time goes back again and again: a table of results, not a log.
bool goes_back_and_forth(const CsvLayout& layout, const CsvRows& rows);
// Rows with a cell more than the header has names: somebody's own time stands before nvidia-smi's.
// False: which cell has no name cannot be told.
bool settle_second_time(const CsvLayout& layout, CsvRows& rows);
// Numbers that are too small for MiB and too broken for anything else: whether they are GiB is not
// said. True: a column was left out.
bool leave_out_memory_without_unit(CsvLayout& layout, const CsvRows& rows);

}  // namespace lockstep
