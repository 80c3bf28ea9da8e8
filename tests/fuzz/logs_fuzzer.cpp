// Any bytes as the log of another tool: no crash, times in order, values possible.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "sources/csv/csv_log.hpp"
#include "sources/csv/text_blocks.hpp"
#include "sources/dcgm/dcgmi_columns.hpp"
#include "sources/gpustat/gpustat_log.hpp"
#include "sources/gpustat/gpustat_table.hpp"
#include "sources/gpustat/gputil_table.hpp"
#include "sources/log/training_log.hpp"
#include "sources/nvidia_smi/column_log.hpp"
#include "sources/nvidia_smi/query_log.hpp"
#include "sources/nvidia_smi/table_log.hpp"
#include "sources/rocm_smi/rocm_smi_table.hpp"

namespace {

void check(const std::optional<lockstep::ParsedLog>& log) {
  if (!log) return;
  double last = -1e300;
  for (const lockstep::Record& record : log->records) {
    if (!std::isfinite(record.t_ms) || record.t_ms < last) std::abort();
    last = record.t_ms;
    const auto* tick = std::get_if<lockstep::GpuTick>(&record.content);
    if (tick == nullptr) continue;
    for (const lockstep::GpuSample& gpu : *tick)
      if (const auto busy = gpu.busy.value(); busy && !(*busy >= 0 && *busy <= 1)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  check(lockstep::parse_nvidia_smi_query(lines));
  check(lockstep::parse_dcgmi_columns(lines));
  check(lockstep::parse_gpustat_table(lines));
  check(lockstep::parse_gputil_table(lines));
  check(lockstep::parse_rocm_smi_table(lines));
  check(lockstep::parse_csv_log(lines));
  check(lockstep::parse_text_blocks(lines));
  check(lockstep::parse_nvidia_smi_tables(lines));
  check(lockstep::parse_nvidia_smi_columns(lines));
  check(lockstep::parse_gpustat_log(text));
  lockstep::parse_training_log(lines);
  return 0;
}
