#include "advice/launch_table.hpp"

#include <algorithm>

namespace lockstep {
namespace {

using Kind = LaunchAdvice::Kind;

std::string value_of(const LaunchSituation& situation, const char* name) {
  const auto found = situation.environment.find(name);
  return found == situation.environment.end() ? std::string() : found->second;
}

struct Rule {
  Kind kind;
  const char* name;
  const char* value;
  const char* reason;
  bool (*applies)(const LaunchSituation& situation);
};

const Rule kRules[] = {
    {Kind::flag, "--nproc-per-node", "gpu",
     "one rank and several GPUs: the others would stand idle (P103)",
     [](const LaunchSituation& situation) { return situation.ranks == 1 && situation.gpus > 1; }},
    {Kind::flag, "--standalone", "",
     "one machine: a free port instead of 29500, which another job may have (L801)",
     [](const LaunchSituation& situation) {
       return situation.one_machine && !situation.meeting_given;
     }},
    {Kind::flag, "--bind", "numa",
     "several memory nodes: batches are prepared next to the GPU that gets them",
     [](const LaunchSituation& situation) {
       return situation.memory_nodes > 1 && situation.gpus > 0;
     }},
    {Kind::unset_variable, "CUDA_LAUNCH_BLOCKING", "", "with it every kernel is waited for (X708)",
     [](const LaunchSituation& situation) {
       return value_of(situation, "CUDA_LAUNCH_BLOCKING") == "1";
     }},
    {Kind::unset_variable, "TORCH_DISTRIBUTED_DEBUG", "",
     "DETAIL checks every collective against all ranks (X708)",
     [](const LaunchSituation& situation) {
       return value_of(situation, "TORCH_DISTRIBUTED_DEBUG") == "DETAIL";
     }},
    {Kind::set_variable, "NCCL_DEBUG", "WARN",
     "INFO and TRACE write lines for every connection; --nccl-debug keeps them apart",
     [](const LaunchSituation& situation) {
       return value_of(situation, "NCCL_DEBUG") == "INFO" ||
              value_of(situation, "NCCL_DEBUG") == "TRACE";
     }},
    {Kind::unset_variable, "NCCL_SHM_DISABLE", "",
     "ranks of one machine would talk through the network (C405)",
     [](const LaunchSituation& situation) {
       return value_of(situation, "NCCL_SHM_DISABLE") == "1" && situation.one_machine;
     }},
};

}  // namespace

std::vector<LaunchAdvice> recommended_launch(const LaunchSituation& situation) {
  std::vector<LaunchAdvice> advice;
  for (const Rule& rule : kRules)
    if (rule.applies(situation)) advice.push_back({rule.kind, rule.name, rule.value, rule.reason});
  return advice;
}

}  // namespace lockstep
