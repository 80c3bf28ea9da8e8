#include "render/json/device_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "render/json/json_values.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json device_share(double value) { return rounded(value, 1e6); }
Json whole_number(double value) { return rounded(value, 1); }

Json use_json(const DeviceUse& use) {
  return {{"device", use.device},
          {"computes", device_share(use.computes)},
          {"collectives_exposed", device_share(use.exposed)},
          {"collectives_hidden", device_share(use.hidden)},
          {"copies", device_share(use.copies)},
          {"idle", device_share(use.idle)},
          {"kernels_a_step", rounded(use.kernels_a_step, 100)}};
}

}  // namespace

Json devices_json(const DeviceSignals& devices) {
  Json ranks = Json::array();
  for (const RankDevices& rank : devices.ranks) {
    Json uses = Json::array();
    for (const DeviceUse& use : rank.devices) uses.push_back(use_json(use));
    Json idle = Json::object();
    for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
      if (rank.idle[i] > 0) idle[std::string(kStepSpanNames[i])] = device_share(rank.idle[i]);
    Json entry = {{"rank", rank.rank},
                  {"devices", std::move(uses)},
                  {"idle_by_part", std::move(idle)},
                  {"launch_gaps", device_share(rank.launch_gaps)},
                  {"launch_gaps_a_step", rounded(rank.launch_gaps_a_step, 100)},
                  {"host_waits", device_share(rank.waits)},
                  {"host_waits_a_step", rounded(rank.waits_a_step, 100)},
                  {"probe_overhead", device_share(rank.overhead)}};
    if (rank.slowed_by_probe > 0) entry["slowed_by_probe"] = device_share(rank.slowed_by_probe);
    if (rank.slowed_for_good > 0) entry["slowed_for_good"] = device_share(rank.slowed_for_good);
    if (rank.devices.size() > 1) {
      entry["exclusive"] = device_share(rank.exclusive);
      entry["hand_overs_a_step"] = rounded(rank.hand_overs_a_step, 100);
    }
    if (rank.pageable_bytes_a_step > 0)
      entry["pageable_bytes_a_step"] = whole_number(rank.pageable_bytes_a_step);
    if (rank.plain_matmul + rank.tensor_cores > 0) {
      entry["plain_matmul"] = device_share(rank.plain_matmul);
      entry["tensor_cores"] = device_share(rank.tensor_cores);
    }
    ranks.push_back(std::move(entry));
  }
  return {{"steps", devices.steps}, {"ranks", std::move(ranks)}};
}

Json collectives_json(const CollectiveSignals& collectives) {
  Json speeds = Json::array();
  for (const CollectiveSpeed& speed : collectives.speeds)
    speeds.push_back({{"operation", speed.operation},
                      {"algorithm", speed.algorithm},
                      {"protocol", speed.protocol},
                      {"ranks", speed.size},
                      {"count", speed.count},
                      {"bytes", whole_number(speed.bytes)},
                      {"transfer_ms", rounded(speed.transfer_ms, 1e6)},
                      {"bus_bytes_s", whole_number(speed.bus_bytes_s)}});
  // Without the GPUs' times nobody knows who waits.
  const auto waited = [&](double share) {
    return collectives.on_device ? device_share(share) : Json(nullptr);
  };
  Json ranks = Json::array();
  for (const RankArrival& rank : collectives.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"last", device_share(rank.last)},
                     {"late", waited(rank.late)},
                     {"late_on_host", waited(rank.late_on_host)},
                     {"late_on_gpu", waited(rank.late_on_gpu)},
                     {"share_of_lateness", waited(rank.late_share)}});
  return {{"calls", collectives.calls},
          {"matched", collectives.matched},
          {"on_gpu", collectives.on_device},
          {"bytes_s", whole_number(collectives.bytes_s)},
          {"transfer", device_share(collectives.transfer)},
          {"link_bytes_s",
           collectives.link_bytes_s ? whole_number(*collectives.link_bytes_s) : Json(nullptr)},
          {"speeds", std::move(speeds)},
          {"ranks", std::move(ranks)}};
}

Json communicators_json(const CommunicatorSignals& communicators) {
  Json stuck = Json::array();
  for (const StuckCommunicator& one : communicators.stuck)
    stuck.push_back({{"hash", one.hash},
                     {"size", one.size},
                     {"operation", one.operation},
                     {"behind", one.behind},
                     {"unreachable", one.silent},
                     {"fewest", one.fewest},
                     {"most", one.most},
                     {"for_ms", whole_number(one.for_ms)}});
  return {{"nccl_version", communicators.nccl_version},
          {"looks", communicators.looks},
          {"communicators", communicators.communicators},
          {"largest", communicators.largest},
          {"processes", communicators.processes},
          {"begun", communicators.begun},
          {"stuck", std::move(stuck)},
          {"failed", communicators.failed}};
}

}  // namespace lockstep
