#include "render/json/trace_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "render/json/json_values.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Nanoseconds are exact: three decimals of a microsecond.
Json us(double value) { return std::round(value * 1e3) / 1e3; }
Json trace_share(double value) { return rounded(value, 1e4); }

// As HolisticTraceAnalysis rounds: two digits of a percentage.
Json percentage(double part, double whole) {
  return whole > 0 ? rounded(100 * part / whole, 100) : Json(nullptr);
}

Json stream_json(const StreamIdle& stream) {
  const double idle = stream.host_wait_us + stream.kernel_wait_us + stream.other_us;
  const auto ratio = [&](double value) {
    return idle != 0 ? rounded(value / idle, 100) : Json(nullptr);
  };
  return {{"device", stream.device},
          {"stream", stream.stream},
          {"host_wait_us", us(stream.host_wait_us)},
          {"kernel_wait_us", us(stream.kernel_wait_us)},
          {"other_us", us(stream.other_us)},
          {"host_wait_ratio", ratio(stream.host_wait_us)},
          {"kernel_wait_ratio", ratio(stream.kernel_wait_us)},
          {"other_ratio", ratio(stream.other_us)}};
}

Json rank_json(const RankBreakdown& rank) {
  Json json = {{"rank", rank.rank},
               {"file", rank.file},
               {"span_us", us(rank.span_us)},
               {"idle_us", us(rank.idle_us)},
               {"compute_us", us(rank.compute_us)},
               {"non_compute_us", us(rank.non_compute_us)},
               {"communication_us", us(rank.communication_us)},
               {"idle_percent", percentage(rank.idle_us, rank.span_us)},
               {"compute_percent", percentage(rank.compute_us, rank.span_us)},
               {"non_compute_percent", percentage(rank.non_compute_us, rank.span_us)},
               {"overlap", rank.overlap ? rounded(*rank.overlap, 1e4) : Json(nullptr)},
               {"gpu_rows", Json::object()},
               {"streams", Json::array()},
               {"kernels", Json::array()}};
  for (const auto& [category, count] : rank.rows) json["gpu_rows"][category] = count;
  for (const StreamIdle& stream : rank.streams) json["streams"].push_back(stream_json(stream));
  for (const KernelSum& kernel : rank.kernels)
    json["kernels"].push_back({{"name", kernel.name},
                               {"type", kKernelTypeNames[static_cast<std::size_t>(kernel.type)]},
                               {"count", kernel.count},
                               {"sum_us", us(kernel.sum_us)},
                               {"longest_us", us(kernel.longest_us)}});
  return json;
}

Json types_json(const TraceBreakdown& breakdown) {
  Json list = Json::array();
  double all = 0;
  for (const TypeSum& sum : breakdown.types) all += sum.sum_us;
  for (const TypeSum& sum : breakdown.types) {
    std::string name;
    for (const KernelType type : sum.types)
      name += (name.empty() ? "" : " overlapping ") +
              std::string(kKernelTypeNames[static_cast<std::size_t>(type)]);
    list.push_back({{"type", name},
                    {"sum_us", us(sum.sum_us)},
                    {"percent", all > 0 ? rounded(100 * sum.sum_us / all, 10) : Json(nullptr)}});
  }
  return list;
}

}  // namespace

nlohmann::ordered_json trace_object(const TraceSignals& trace) {
  Json json = {{"compat", trace.breakdown.like_hta ? Json("hta") : Json(nullptr)},
               {"steps", trace.steps},
               {"step_ms", rounded(trace.step_ms, 1e4)},
               {"captured_s", rounded(trace.captured_s, 1e6)},
               {"collectives_matched", trace.collectives},
               {"ranks", Json::array()},
               {"kernel_types", types_json(trace.breakdown)},
               {"arrivals", Json::array()},
               {"critical_path", Json::array()},
               {"what_if", Json::object()},
               {"replay_error", trace_share(trace.replay_error)}};
  for (const RankBreakdown& rank : trace.breakdown.ranks) json["ranks"].push_back(rank_json(rank));
  for (const TraceRankSignals& rank : trace.ranks)
    json["arrivals"].push_back(
        {{"rank", rank.rank},
         {"late_a_step_ms", rounded(rank.late_ms_a_step, 1e4)},
         {"late_share", trace_share(rank.late_share)},
         {"exposed_communication", trace_share(rank.exposed_communication)}});
  for (const CriticalShare& part : trace.critical_path)
    json["critical_path"].push_back(
        {{"what", part.what}, {"rank", part.rank}, {"share", trace_share(part.share)}});
  // What would be given back: a share of the captured time.
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
    if (trace.removable[part] > 0)
      json["what_if"]["without_" + std::string(kStepSpanNames[part])] =
          trace_share(trace.removable[part]);
  json["what_if"]["free_launches"] = trace_share(trace.removable_launches);
  json["what_if"]["free_collectives"] = trace_share(trace.removable_collectives);
  return json;
}

}  // namespace lockstep
