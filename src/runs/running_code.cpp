#include "runs/running_code.hpp"

#include <filesystem>
#include <set>

#include "fix/running_script.hpp"
#include "report/join_code.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const ProcessSample* process_of(const Report& report, int pid) {
  for (const ProcessSample& process : report.processes)
    if (process.pid == pid) return &process;
  return nullptr;
}

}  // namespace

void add_code_of_processes(Report& report, const std::vector<std::string>& own_command) {
  std::set<fs::path> seen;
  std::error_code failed;
  const auto add = [&](RunningScript running, const std::vector<int>& pids) {
    for (const Finding& finding : report.findings)
      if (finding.code == FindingCode::memory_nearly_full ||
          finding.code == FindingCode::out_of_memory)
        running.short_of_memory = finding.code;
    const auto script = script_of(running);
    if (!script || !seen.insert(*script).second) return;
    if (const auto code = code_report(running)) join_code_findings(report, *code, pids);
  };
  for (const Job& job : report.jobs) {
    if (job.pids.empty()) continue;
    const ProcessSample* const process = process_of(report, job.pids.front());
    if (process == nullptr || !process->command) continue;
    const fs::path folder =
        fs::read_symlink("/proc/" + std::to_string(process->pid) + "/cwd", failed);
    if (!failed) add({*process->command, folder, static_cast<int>(job.gpus.size())}, job.pids);
  }
  if (!own_command.empty() && seen.empty())
    add({own_command, fs::current_path(failed), std::nullopt}, {});
}

}  // namespace lockstep
