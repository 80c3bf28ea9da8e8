#include "render/json/plan_json.hpp"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json way_json(const PlannedWay& way) {
  Json memory = Json::array();
  for (const PlannedPart& part : way.memory)
    memory.push_back({{"name", part.name}, {"bytes", part.bytes}});
  return {{"strategy", way.strategy},
          {"gpus", way.gpus},
          {"nodes", way.nodes},
          {"group", way.group},
          {"replicas", way.replicas},
          {"micro_batch", way.micro_batch},
          {"accumulation", way.accumulation},
          {"global_batch", way.global_batch},
          {"tokens_per_update", way.tokens_per_update},
          {"activation_checkpointing", way.activation_checkpointing},
          {"fits", way.fits},
          {"memory",
           {{"parts", memory},
            {"total_bytes", way.memory_bytes},
            {"peak_allocated_bytes", way.peak_allocated_bytes},
            {"limit_bytes", way.memory_limit_bytes}}},
          {"step",
           {{"total_ms", way.step_ms},
            {"compute_ms", way.compute_ms},
            {"optimizer_ms", way.optimizer_ms},
            {"communication_ms", way.communication_ms},
            {"exposed_ms", way.exposed_ms},
            {"communication_share", way.communication_share},
            {"host_bound", way.host_bound}}},
          {"samples_per_s", way.samples_s},
          {"tokens_per_s", way.tokens_s},
          {"mfu", way.model_flops_share}};
}

Json scale_json(const PlannedScale& scale) {
  Json json = {{"gpus", scale.way.gpus},
               {"speedup", scale.speedup},
               {"efficiency", scale.efficiency},
               {"way", way_json(scale.way)}};
  json["days"] = scale.days ? Json(*scale.days) : Json(nullptr);
  json["gpu_hours"] = scale.gpu_hours ? Json(*scale.gpu_hours) : Json(nullptr);
  return json;
}

template <class Items, class Turn>
Json list_of(const Items& items, const Turn& turn) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(turn(item));
  return list;
}

}  // namespace

std::string plan_json(const Plan& plan) {
  const PlannedHardware& hardware = plan.hardware;
  const PlannedModel& model = plan.model;
  Json json = {{"lockstep_plan", 1}};
  json["machine"] = {{"gpu", hardware.gpu},
                     {"gpus_per_node", hardware.gpus_a_node},
                     {"nodes", hardware.nodes},
                     {"memory_bytes", hardware.memory_bytes},
                     {"links", hardware.links},
                     {"link_bytes_s", hardware.link_bytes_s},
                     {"network_bytes_s", hardware.network_bytes_s},
                     {"cores_per_node", hardware.cores_a_node},
                     {"notes", hardware.notes}};
  json["model"] = {{"name", model.name},
                   {"parameters", model.parameters},
                   {"trained_parameters", model.trained_parameters},
                   {"layers", model.layers},
                   {"hidden", model.hidden},
                   {"vocabulary", model.vocabulary},
                   {"sequence_length", model.sequence_length},
                   {"method", model.method},
                   {"precision", model.precision},
                   {"frozen", model.frozen}};
  json["fits"] = plan.choice.fits;
  json["strategy"] = plan.choice.strategy;
  json["reason"] = plan.reason;
  json["choice"] = way_json(plan.choice);
  json["missing_bytes"] = plan.missing_bytes;
  json["ways_out"] = plan.ways_out;
  json["error_range"] = {{"step", plan.step_doubt}, {"memory", plan.memory_doubt}};
  json["calibrated"] = plan.calibrated;
  json["base_tokens_per_s"] = plan.base_tokens_s;
  json["scaling"] = list_of(plan.scaling, scale_json);
  json["alternatives"] = list_of(plan.alternatives, way_json);
  json["ladder"] = list_of(plan.ladder, [](const LadderRung& rung) {
    return Json{{"note", rung.note}, {"way", way_json(rung.way)}};
  });
  json["settings"] = list_of(plan.settings, [](const PlannedSetting& setting) {
    return Json{{"name", setting.name}, {"value", setting.value}, {"reason", setting.reason}};
  });
  json["assumptions"] = list_of(plan.assumptions, [](const PlanAssumption& item) {
    return Json{{"name", item.name},
                {"value", item.value},
                {"unit", item.unit},
                {"doubt", item.doubt},
                {"step_effect", item.step_effect},
                {"memory_effect", item.memory_effect}};
  });
  json["numbers"] = list_of(plan.numbers, [](const ExplainedNumber& number) {
    return Json{{"name", number.name},
                {"value", number.value},
                {"unit", number.unit},
                {"formula", number.formula}};
  });
  json["candidates"] = plan.candidates;
  return json.dump(2) + "\n";
}

}  // namespace lockstep
