// C405: ranks exchange gradients over a slow path, though a faster one is (or could be) there.
//
// Why it shows: all ranks spin equally long in every step (nobody is late), bytes go over PCIe in
// both directions, and nothing over NVLink. Where peer-to-peer is missing or switched off the bytes
// take a detour through host memory. Confused with: exposed-collectives on a link that is as fast
// as it gets (then this stays silent), input copies (one direction, GPU idle). Where the GPUs have
// no NVLink and reach each other, PCIe is the link: silent too. Blind: without byte counters; how
// fast the link could be is `lockstep doctor`'s to measure.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

// By what the collectives themselves took: the shortest on any rank, which waited for nobody,
// against what the links allow.
std::optional<Finding> from_transfers(const JobSignals& job) {
  constexpr double kLargeBytes = 4 << 20;  // below, latency counts and not the link
  constexpr std::size_t kTimesAtLeast = 10;
  // NCCL reaches 0.7 to 1 of what `plan` counts with at such sizes
  constexpr double kOfLinkAtMost = 0.5;
  constexpr double kTransferAtLeast = 0.05;
  const CollectiveSignals& collectives = *job.collectives;
  if (!collectives.link_bytes_s || collectives.transfer < kTransferAtLeast) return std::nullopt;
  for (const CollectiveSpeed& speed : collectives.speeds) {
    if (speed.bytes < kLargeBytes || speed.count < kTimesAtLeast) continue;
    const double of_link = speed.bus_bytes_s / *collectives.link_bytes_s;
    if (of_link > kOfLinkAtMost) return std::nullopt;
    double exposed = collectives.transfer;
    if (job.steps && job.steps->devices)
      for (const RankDevices& rank : job.steps->devices->ranks)
        if (const DeviceUse* const use = rank.main()) exposed = std::min(exposed, use->exposed);
    Finding finding = about_job(
        FindingCode::slow_link, job, Severity::warning, 0.9, exposed * (1 - of_link),
        {{"bus_speed", speed.bus_bytes_s, kOfLinkAtMost * *collectives.link_bytes_s, "bytes/s"},
         {"links_allow", *collectives.link_bytes_s, std::nullopt, "bytes/s"},
         {"bytes_of_a_collective", speed.bytes, std::nullopt, "bytes"},
         {"transfers_alone", collectives.transfer, kTransferAtLeast, "fraction"}});
    finding.rung = 2;
    return finding;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Finding> find_slow_link(const Seen& seen) {
  constexpr double kHollowAtLeast = 0.2;
  constexpr double kBytesAtLeast = 5e8;  // a second, each way
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::in_step || job.gpus.size() < 2 || !trains(job)) continue;
    if (job.collectives && job.collectives->on_device && job.collectives->link_bytes_s) {
      if (auto finding = from_transfers(job)) findings.push_back(std::move(*finding));
      continue;
    }
    double lowest = 1;
    for (const GpuInJob& member : job.members)
      lowest = std::min(lowest, member.hollow.value_or(0) * member.busy.value_or(0));
    double in = 1e18;
    double out = 1e18;
    double nvlink = 0;
    bool has_nvlink = false;
    for (const GpuSignals& gpu : seen.signals.gpus) {
      if (!holds(job, gpu.index)) continue;
      in = std::min(in, gpu.pcie_rx_bytes_s.value_or(0));
      out = std::min(out, gpu.pcie_tx_bytes_s.value_or(0));
      nvlink = std::max(nvlink, gpu.nvlink_bytes_s.value_or(0));
      has_nvlink = has_nvlink || gpu.nvlink_bytes_s;
    }
    if (lowest < kHollowAtLeast || in < kBytesAtLeast || out < kBytesAtLeast ||
        nvlink > 0.1 * (in + out))
      continue;
    const bool switched_off = std::ranges::any_of(job.processes, [](const ProcessSample& process) {
      return environment_of(process, "NCCL_P2P_DISABLE") == "1" ||
             environment_of(process, "NCCL_SHM_DISABLE") == "1";
    });
    const bool no_peers = seen.signals.peer_to_peer && seen.signals.peer_to_peer->empty();
    if (!has_nvlink && !switched_off && !no_peers) continue;
    findings.push_back(about_job(FindingCode::slow_link, job, Severity::warning,
                                 switched_off || no_peers ? 0.6 : 0.4, lowest,
                                 {{"hollow_on_every_gpu", lowest, kHollowAtLeast, "fraction"},
                                  {"pcie_received", in, kBytesAtLeast, "bytes/s"},
                                  {"pcie_sent", out, kBytesAtLeast, "bytes/s"},
                                  {"nvlink", nvlink, std::nullopt, "bytes/s"}}));
  }
  return findings;
}

}  // namespace lockstep
