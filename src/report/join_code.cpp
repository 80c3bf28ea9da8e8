#include "report/join_code.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace lockstep {
namespace {

// Of code that nothing measured speaks for: it may be hidden behind the GPU's work.
constexpr double kUnmeasured = 0.4;

// What code explains which measurement.
struct Explains {
  FindingCode code;
  FindingCode measured;
};
constexpr std::array kExplains = {
    Explains{FindingCode::loader_without_workers, FindingCode::input_starved},
    Explains{FindingCode::logging_too_often, FindingCode::host_sync_every_step},
    Explains{FindingCode::host_sync_every_step, FindingCode::logging_too_often},
    Explains{FindingCode::find_unused_parameters, FindingCode::exposed_collectives},
    Explains{FindingCode::unfused_optimizer, FindingCode::launch_bound},
};

// Code that may be behind a measurement without being enough to explain all of it.
constexpr std::array kMayBeBehind = {
    Explains{FindingCode::world_size_not_set, FindingCode::taking_turns},
    Explains{FindingCode::world_size_not_set, FindingCode::one_gpu_leads},
    Explains{FindingCode::world_size_not_set, FindingCode::idle_gpus},
    Explains{FindingCode::taking_turns, FindingCode::idle_gpus},
    Explains{FindingCode::pageable_copies, FindingCode::input_starved},
    Explains{FindingCode::workers_restarted_each_epoch, FindingCode::input_starved},
    Explains{FindingCode::every_rank_saves, FindingCode::checkpoint_stall},
    Explains{FindingCode::sync_every_micro_step, FindingCode::exposed_collectives},
    Explains{FindingCode::rank_conditional_collective, FindingCode::stuck_collective},
    Explains{FindingCode::rank_conditional_collective, FindingCode::nccl_timeout},
    Explains{FindingCode::uneven_batches, FindingCode::stuck_collective},
    Explains{FindingCode::uneven_batches, FindingCode::nccl_timeout},
};

// Two independent signs of one thing.
double together(double a, double b) { return 1 - (1 - a) * (1 - b); }

Finding* find(std::vector<Finding>& findings, FindingCode code) {
  const auto found =
      std::ranges::find_if(findings, [&](const Finding& finding) { return finding.code == code; });
  return found == findings.end() ? nullptr : &*found;
}

// The patch stands first; the general advice that it makes concrete goes.
void take_fixes(Finding& measured, const Finding& code) {
  if (measured.reason.empty()) measured.reason = code.reason;
  if (code.fixes.empty() || !code.fixes.front().diff) return;
  std::erase_if(measured.fixes,
                [](const Fix& fix) { return fix.kind == FixKind::edit && !fix.diff; });
  measured.fixes.insert(measured.fixes.begin(), code.fixes.front());
}

}  // namespace

std::set<FindingCode> to_look_for_in_code(std::span<const FindingCode> measured) {
  std::set<FindingCode> codes(measured.begin(), measured.end());
  const auto add_from = [&](const auto& rows) {
    for (const Explains& row : rows)
      if (std::ranges::find(measured, row.measured) != measured.end()) codes.insert(row.code);
  };
  add_from(kExplains);
  add_from(kMayBeBehind);
  return codes;
}

void join_code_findings(Report& report, const Report& code, const std::vector<int>& pids) {
  int last_group = 0;
  for (const auto* const list : {&report.findings, &report.suspicions})
    for (const Finding& finding : *list)
      for (const Fix& fix : finding.fixes) last_group = std::max(last_group, fix.group.value_or(0));
  std::set<FindingCode> supported;  // five lines of one kind are one sign
  const auto support_once = [&](Finding& measured, const Finding& sign) {
    if (supported.insert(measured.code).second)
      measured.confidence = together(measured.confidence, sign.confidence * 0.5);
    measured.where.insert(measured.where.end(), sign.where.begin(), sign.where.end());
  };
  for (Finding finding : code.findings) {
    for (Fix& fix : finding.fixes)
      if (fix.group) fix.group = *fix.group + last_group;
    finding.pids = pids;
    Finding* measured = find(report.findings, finding.code);
    if (measured != nullptr) {
      support_once(*measured, finding);
      take_fixes(*measured, finding);
      continue;
    }
    if (Finding* const suspected = find(report.suspicions, finding.code)) {
      support_once(*suspected, finding);
      take_fixes(*suspected, finding);
      if (is_stood_behind(*suspected)) {
        report.findings.push_back(*suspected);
        report.suspicions.erase(report.suspicions.begin() + (suspected - report.suspicions.data()));
      }
      continue;
    }
    bool explained = false;
    for (const Explains& row : kExplains) {
      if (row.code != finding.code) continue;
      measured = find(report.findings, row.measured);
      if (measured == nullptr) continue;
      finding.confidence = together(finding.confidence * 0.5, measured->confidence);
      finding.lost_throughput = measured->lost_throughput;
      finding.lost_gpu_hours_a_day = measured->lost_gpu_hours_a_day;
      finding.cause_of = row.measured;
      finding.gpus = measured->gpus;
      support_once(*measured, finding);
      explained = true;
      break;
    }
    if (explained) {
      report.findings.push_back(std::move(finding));
    } else if (finding.severity != Severity::info) {
      finding.confidence = std::min(finding.confidence, kUnmeasured);
      report.suspicions.push_back(std::move(finding));
    }
  }
}

}  // namespace lockstep
