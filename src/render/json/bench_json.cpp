#include "render/json/bench_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json exact_number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json step_time(double ms) { return ms > 0 ? Json(ms) : Json(nullptr); }  // no step was seen

Json growth_json(Growth growth) {
  return growth == Growth::weak     ? Json("weak")
         : growth == Growth::strong ? Json("strong")
                                    : Json(nullptr);
}

Json row_json(const BenchRow& row) {
  const BenchCase& what = row.what;
  Json json = {{"title", what.title},
               {"way", what.way},
               {"growth", growth_json(what.growth)},
               {"devices", what.devices},
               {"ranks", what.ranks}};
  json["batch"] = what.batch > 0 ? Json(what.batch) : Json(nullptr);
  json["accumulation"] = what.accumulation;
  json["command"] = what.command;
  json["speed"] = row.speed;
  json["speedup"] = row.speedup;
  json["efficiency"] = row.efficiency;
  json["step_ms"] = step_time(row.step_ms);
  json["epoch_s"] = exact_number(row.epoch_s);
  json["busy"] = row.busy;
  Json parts = Json::array();
  for (const auto& [name, share] : row.parts) parts.push_back({{"name", name}, {"share", share}});
  json["parts"] = parts;
  json["too_few_cores"] = row.too_few_cores;
  json["published_minutes"] = exact_number(what.published_minutes);
  Json rounds = Json::array();
  for (const BenchRound& round : row.rounds)
    rounds.push_back({{"speed", round.speed},
                      {"step_ms", step_time(round.step_ms)},
                      {"other_cores", exact_number(round.other_cores)}});
  json["rounds"] = rounds;
  return json;
}

Json expected_json(const std::vector<Expected>& expected) {
  Json list = Json::array();
  for (const Expected& at : expected)
    list.push_back({{"devices", at.devices}, {"speedup_low", at.low}, {"speedup_high", at.high}});
  return list;
}

Json fit_json(const ScalingFit& fit) {
  return {{"alone_ms", fit.alone_ms},
          {"traffic_ms", exact_number(fit.traffic_ms)},
          {"each_device_ms", exact_number(fit.each_ms)},
          {"serial_share", exact_number(fit.serial)},
          {"expected_weak", expected_json(fit.weak)},
          {"expected_strong", expected_json(fit.strong)},
          {"left_out_devices", fit.left_out}};
}

}  // namespace

std::string bench_json(const BenchReport& report) {
  Json json = {{"lockstep_bench", 1},
               {"kind", report.kind == BenchKind::scaling ? "scaling" : "presets"},
               {"subject", report.subject},
               {"unit", report.unit}};
  json["machine"] = {
      {"devices", report.devices}, {"virtual", report.is_virtual}, {"cores", report.cores}};
  json["rounds"] = report.rounds;
  json["rows"] = Json::array();
  for (const BenchRow& row : report.rows) json["rows"].push_back(row_json(row));
  json["fit"] = report.fit ? fit_json(*report.fit) : Json(nullptr);
  Json published = Json::array();
  for (const PublishedSpeedup& at : kPublishedSpeedups)
    published.push_back(
        {{"devices", at.devices}, {"speedup_low", at.low}, {"speedup_high", at.high}});
  json["published"] = {{"ddp", published},
                       {"ddp_over_data_parallel",
                        {{"speedup_low", kPublishedOverDataParallel[0]},
                         {"speedup_high", kPublishedOverDataParallel[1]}}}};
  json["notes"] = report.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
